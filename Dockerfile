# The GPU environment: scripts/setup_gpu.sh on NVIDIA's CUDA image, as verl's docker/Dockerfile.uv.cu130.
#   docker build --tag rpg . && docker run --gpus all --shm-size 32g --interactive --tty rpg
# flash-attn is compiled, an hour or more; with a wheel for Python 3.12:
#   docker build --tag rpg --build-arg FLASH_ATTN_WHEEL=URL .
# Not built by our CI, which has no Docker and no GPU.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

# InfiniBand for NCCL between nodes, NUMA for binding processes, wget for KubeRay's probes, ssh for git
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        build-essential ca-certificates curl git openssh-client wget \
        python3-dev python3-pip python3-venv \
        ibverbs-providers libibverbs1 libnuma1 librdmacm1 numactl \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/rpg
COPY . .
# A100, H100 and H200; up to 9 GB of memory for each job
ARG FLASH_ATTN_CUDA_ARCHS="80;90"
ARG FLASH_ATTN_WHEEL=
ARG MAX_JOBS=4
RUN FLASH_ATTN=1 bash scripts/setup_gpu.sh
ENV PATH="/opt/rpg/.venv-gpu/bin:$PATH"
CMD ["bash"]
