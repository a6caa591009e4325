say "waiting for the head"
k wait --for=condition=HeadPodReady --timeout=60m --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}"
# Only now are GPU nodes asked for.
k patch --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}" --type=json \
  --patch='[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":'"${GPU_NODES}"'}]'
say "waiting for ${GPU_NODES} workers"
k wait --for=jsonpath='{.status.readyWorkerReplicas}'="${GPU_NODES}" --timeout=120m \
  --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}"
