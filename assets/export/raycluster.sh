say "waiting for the head"
k wait --for=condition=HeadPodReady --timeout=60m --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}"
# GPU nodes are requested only now.
k patch --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}" --type=json \
  --patch='[{"op":"replace","path":"/spec/workerGroupSpecs/0/replicas","value":'"${GPU_NODES}"'}]'
say "waiting for ${GPU_NODES} workers"
k wait --for=jsonpath='{.status.readyWorkerReplicas}'="${GPU_NODES}" --timeout=120m \
  --namespace="${NAMESPACE}" "raycluster/${RAYCLUSTER}"
