#!/bin/sh
# A model that outgrows one machine: vLLM over two machines with 8 GPUs each, by Ray.
#   On the first:   vllm-on-two-machines.sh head openai/gpt-oss-120b
#   On the second:  vllm-on-two-machines.sh worker ADDRESS_OF_THE_FIRST
# The first then serves at port 8000, and `harmony serve http://ADDRESS_OF_THE_FIRST:8000` before it.
# Both need the same vLLM, the model, and a network that nobody else reaches: Ray asks for no key.
set -eu

usage() {
    sed -n 's/^#   /  /p' "$0" >&2
    exit 2
}

[ $# -eq 2 ] || usage
case $1 in
head)
    ray start --head --port 6379
    trap 'ray stop' EXIT
    echo "waiting for the second machine ..." >&2
    python3 - <<'END'
import time, ray
ray.init(address="auto", logging_level="ERROR")
while sum(node["Alive"] for node in ray.nodes()) < 2:
    time.sleep(2)
END
    # Each layer within a machine, half of the layers on each: little goes over the network.
    vllm serve "$2" --host 0.0.0.0 --port 8000 --enable-scale-out \
        --structured-outputs-config '{"backend": "guidance"}' \
        --distributed-executor-backend ray \
        --tensor-parallel-size 8 --pipeline-parallel-size 2
    ;;
worker)
    exec ray start --address "$2:6379" --block
    ;;
*)
    usage
    ;;
esac
