# The tokens go from the environment to private files and into the Secret, never onto a command line.
# (`kubectl apply` would keep the values in an annotation, so the Secret is created.)
from_files=()
if [[ -n "${HF_TOKEN:-}" ]]; then
  printf '%s' "${HF_TOKEN}" >"${private}/hf_token"
  from_files+=(--from-file="${private}/hf_token")
else
  say "HF_TOKEN is not set: gated models cannot be loaded"
fi
if [[ -n "${WANDB_API_KEY:-}" ]]; then
  printf 'machine api.wandb.ai\n  login user\n  password %s\n' "${WANDB_API_KEY}" >"${private}/netrc"
  from_files+=(--from-file="${private}/netrc")
fi
# bash before 4.4 treats an empty array as unset.
k create secret generic "${TOKENS}" --namespace="${NAMESPACE}" ${from_files[@]+"${from_files[@]}"}
