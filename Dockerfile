# The GPU environment of requirement.txt: scripts/setup_gpu.sh on NVIDIA's CUDA image.
#   docker build --tag rpg . && docker run --gpus all --shm-size 32g --interactive --tty rpg
# Not built by our CI, which has no Docker and no GPU.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git python3-dev python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/rpg
COPY . .
# A100, H100 and H200; flash-attn is compiled, up to 9 GB of memory for each job
ARG FLASH_ATTN_CUDA_ARCHS="80;90"
ARG MAX_JOBS=4
RUN FLASH_ATTN=1 bash scripts/setup_gpu.sh
ENV PATH="/opt/rpg/.venv-gpu/bin:$PATH"
CMD ["bash"]
