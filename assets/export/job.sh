head="$(k get pods --namespace="${NAMESPACE}" --output=name \
  --selector="ray.io/cluster=${RAYCLUSTER},ray.io/node-type=head")"
# kubectl's port-forward ends when a connection fails, so it is restarted.
forward_head() {
  k port-forward --namespace="${NAMESPACE}" "${head}" :8265 >"${private}/forward" 2>&1 &
  forward=$!
}
# Ray's token, if it requires one, is passed in a private file.
{
  token="$(k get secret --namespace="${NAMESPACE}" "${RAYCLUSTER}" --ignore-not-found \
    --output=jsonpath='{.data.auth_token}' | base64 -d)"
  [[ -z "${token}" ]] || printf 'header = "Authorization: Bearer %s"\n' "${token}"
} >"${private}/curl"
ray() {
  local path="$1" port
  shift
  port="$(sed -n 's/^Forwarding from 127[.]0[.]0[.]1:\([0-9]*\) .*/\1/p' "${private}/forward")"
  [[ -n "${port}" ]] || return 1
  curl --silent --show-error --fail-with-body --noproxy '*' --config "${private}/curl" "$@" \
    "http://127.0.0.1:${port}${path}"
}
head_is_ready() {
  kill -0 "${forward}" 2>/dev/null || forward_head
  ray /api/version --output /dev/null 2>/dev/null
}
forward_head
wait_for 600 "Ray's Jobs API" head_is_ready
