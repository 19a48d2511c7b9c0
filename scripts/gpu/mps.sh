# Source this before several cells share a GPU: kernels of different processes then run at the same time instead of in
# turns, if the machine has NVIDIA's multi-process service and it works there. The gain was not measured.
if command -v nvidia-cuda-mps-control > /dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/mps} CUDA_MPS_LOG_DIRECTORY=/tmp/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d 2> /dev/null || true # it may be running already
    if ! timeout 60 python3 -c 'import torch; torch.ones(2, device="cuda").sum().item()'; then
        echo "The multi-process service does not work here; cells take turns on the GPU." >&2
        echo quit | nvidia-cuda-mps-control || true
        unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    fi
fi
