# Sourced by setup_gpu.sh: a wheel of flash-attn, or why it cannot be compiled. Needs PYTHON, install, flash_attn.

# has_wheel: install a wheel of flash-attn that fits this Python and torch; tells what was tried, and why it failed.
has_wheel() {
    local options=(--no-deps --only-binary flash-attn) what=$flash_attn
    case ${FLASH_ATTN_WHEEL:-} in
        "") ;;
        *.whl) what=$FLASH_ATTN_WHEEL ;;
        *) if [[ -d $FLASH_ATTN_WHEEL ]]; then options+=(--find-links); else options+=(--index); fi
            options+=("$FLASH_ATTN_WHEEL") ;;
    esac
    install "${options[@]}" "$what" && install einops && imports
}
imports() { "$PYTHON" -c 'import flash_attn, sys; sys.exit(flash_attn.__version__.split("+")[0] != sys.argv[1])' "${flash_attn#*==}"; }

# Prints why flash-attn cannot be built here, or nothing; sets FLASH_ATTN_CUDA_ARCHS.
obstacle() {
    local nvcc=${CUDA_HOME:+$CUDA_HOME/bin/}nvcc wanted found
    wanted=$("$PYTHON" -c 'import torch; print((torch.version.cuda or "none").split(".")[0])')
    if ! command -v "$nvcc" >/dev/null; then
        echo "there is no $nvcc; it takes the CUDA toolkit $wanted"
        return
    fi
    found=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    if [[ $found != "$wanted" ]]; then
        echo "$nvcc has CUDA $found, but torch is built with CUDA $wanted; set CUDA_HOME to another"
    elif [[ -z ${FLASH_ATTN_CUDA_ARCHS:-} ]]; then
        echo "there is no GPU to say for which; FLASH_ATTN_CUDA_ARCHS=90 builds for H100 and H200, 80 for A100"
    fi
}
