head="$(k get pods --namespace="${NAMESPACE}" --output=name \
  --selector="ray.io/cluster=${RAYCLUSTER},ray.io/node-type=head")"
k port-forward --namespace="${NAMESPACE}" "${head}" :8265 >"${private}/forward" &
forward=$!
forwarded() {
  port="$(sed -n 's/^Forwarding from 127[.]0[.]0[.]1:\([0-9]*\) .*/\1/p' "${private}/forward")"
  [[ -n "${port}" ]]
}
wait_for 60 "the forwarded port" forwarded
# Ray's own token, where it asks for one, goes by a private file.
{
  token="$(k get secret --namespace="${NAMESPACE}" "${RAYCLUSTER}" --ignore-not-found \
    --output=jsonpath='{.data.auth_token}' | base64 -d)"
  [[ -z "${token}" ]] || printf 'header = "Authorization: Bearer %s"\n' "${token}"
} >"${private}/curl"
ray() {
  local path="$1"
  shift
  curl --silent --show-error --fail-with-body --noproxy '*' --config "${private}/curl" "$@" \
    "http://127.0.0.1:${port}${path}"
}
head_answers() { ray /api/version --output /dev/null; }
wait_for 300 "Ray's Jobs API" head_answers
