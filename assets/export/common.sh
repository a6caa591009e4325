export CLOUDSDK_CORE_PROJECT="${PROJECT_ID}" CLOUDSDK_CORE_DISABLE_PROMPTS=1
POLL_SECONDS="${POLL_SECONDS:-15}"

umask 077
private="$(mktemp -d)"
trap 'rm -rf "${private}"; [[ -z "${forward:-}" ]] || kill "${forward}" 2>/dev/null || true' EXIT

say() { printf '%s\n' "$*" >&2; }

# kubectl for this cluster, whatever the current context is.
k() { kubectl --context="gke_${PROJECT_ID}_${REGION}_${CLUSTER}" "$@"; }

# wait_for SECONDS WHAT COMMAND...: wait until the command succeeds, up to a time limit.
wait_for() {
  local limit="$1" what="$2" start="${SECONDS}"
  shift 2
  say "waiting for ${what}"
  until "$@"; do
    if ((SECONDS - start > limit)); then
      say "${what}: not ready after ${limit} s"
      return 1
    fi
    sleep "${POLL_SECONDS}"
  done
}
