#!/usr/bin/env bash
# Plants one fault after the other into a copy of the CUDA backend, or of the transport between cards, and expects the emulated tests to fail: scripts/plant.sh BUILD [WORD], after BUILD was built
# with its tests; WORD: only faults whose name has it.
# A fault is a file, a text in it, what stands there instead, the .cu files to compile again, and the tests that must notice (of tests/test_ops.c, with device: in front of
# tests/emu/test_device.c). Last line: "N of N planted faults caught".
set -u
cd "$(dirname "$0")/.."
build=${1:?usage: scripts/plant.sh BUILD [WORD]} word=${2:-}
objects=$build/tests/emu/CMakeFiles/pawl_emu.dir
ops=$build/tests/emu/CMakeFiles/emu_ops.dir/__/test_ops.c.o device=$build/tests/emu/CMakeFiles/emu_device.dir/test_device.c.o
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -f "$ops" ] && [ -f "$device" ] || { echo "plant.sh: $ops or $device is missing: build the targets emu_ops and emu_device first"; exit 1; }

planted=0 caught=0

compile() { # SOURCE OBJECT
    ${CXX:-c++} -std=c++17 -O1 -w -ffp-contract=off -fno-strict-aliasing -D_GNU_SOURCE -DPAWL_HAVE_CUDA -DCUDA_HEAD_CHUNK=512 -DCUDA_HEAD_ROWS=100 -DCUDA_GEMV_SLICE=128 -DCUDA_UPLOADS=1024 -DCUDA_CODE=0 \
        -I tests/emu/include -I "$work" -I . -x c++ -c "$1" -o "$2"
}

plant() { # NAME FILE OLD NEW SOURCES TESTS
    local name=$1 file=$2 old=$3 new=$4 sources=$5 filter=$6 replaced=() rest main=$ops arguments=(cuda "$6")
    [[ $name == *"$word"* ]] || return
    [[ $filter == device:* ]] && main=$device arguments=("${filter#device:}")
    planted=$((planted + 1))
    rm -rf "$work"/*
    mkdir -p "$work/kernels/cuda"
    OLD=$old NEW=$new perl -0pe 's/\Q$ENV{OLD}\E/$ENV{NEW}/' "kernels/cuda/$file" > "$work/kernels/cuda/$file"
    if cmp -s "kernels/cuda/$file" "$work/kernels/cuda/$file"; then
        echo "NOT PLANTED: $name: kernels/cuda/$file no longer has the text '$old'"
        return
    fi
    rest=$(find "$objects" -name '*.o')
    for source in $sources; do
        cp -n "kernels/cuda/$source" "$work/kernels/cuda/"
        compile "$work/kernels/cuda/$source" "$work/$source.o" || { echo "NOT PLANTED: $name does not compile"; return; }
        rest=$(echo "$rest" | grep -v "/$source.o$")
        replaced+=("$work/$source.o")
    done
    ${CXX:-c++} -o "$work/emu" "$main" "${replaced[@]}" $rest "$build/libpawl_kernels.a" "$build/libpawl_base.a" -lcmocka -lgomp -lpthread -lm || return
    for seed in 1 2 3; do
        if ! PAWL_EMU_SEED=$seed timeout 300 "$work/emu" "${arguments[@]}" > "$work/log" 2>&1; then
            caught=$((caught + 1))
            echo "caught: $name: $(grep -m1 -E '^emulation|ERROR ' "$work/log" | cut -c1-150)"
            return
        fi
    done
    echo "MISSED: $name"
}

# In dist/nccl.c, for the tests of ranks on cards. The link is the build's own (of CMake's Makefiles), but for that object.
plant_nccl() { # NAME OLD NEW
    local name=$1 link=$build/tests/emu/CMakeFiles/emu_transport.dir/link.txt include
    [[ $name == *"$word"* && -f $link ]] || return
    planted=$((planted + 1))
    include=$(sed -n 's/^PAWL_\(NCCL\|CUDA\)_INCLUDE:PATH=/-isystem /p' "$build/CMakeCache.txt")
    OLD=$2 NEW=$3 perl -0pe 's/\Q$ENV{OLD}\E/$ENV{NEW}/' dist/nccl.c >"$work/nccl.c"
    if cmp -s dist/nccl.c "$work/nccl.c"; then
        echo "NOT PLANTED: $name: dist/nccl.c no longer has the text '$2'"
        return
    fi
    ${CC:-cc} -std=gnu11 -O1 -w -D_GNU_SOURCE -DPAWL_NCCL -I . $include -c "$work/nccl.c" -o "$work/nccl.o" || { echo "NOT PLANTED: $name does not compile"; return; }
    (cd "$build/tests/emu" && eval "$(sed "s|[^ ]*/dist/nccl.c.o|$work/nccl.o|; s|-o emu_transport|-o $work/emu_transport|" CMakeFiles/emu_transport.dir/link.txt)") || return
    if timeout 300 "$work/emu_transport" >"$work/log" 2>&1; then
        echo "MISSED: $name"
    else
        caught=$((caught + 1))
        echo "caught: $name: $(grep -m1 -o 'emulation: .*' "$work/log" | cut -c1-150)"
    fi
}

# barriers and waits
plant "attention reads values before all warps wrote them" attention.cu '__syncthreads(); /* the values are here, the keys are read */' '' attention.cu 'attention_agrees'
plant "attention overwrites keys and values that are still read" attention.cu '__syncthreads(); /* the next keys are here, the values are read */' '' attention.cu 'attention_agrees'
plant "attention does not wait for its values" attention.cu 'ptx_wait<0>();
        __syncthreads(); /* the values' '__syncthreads(); /* the values' attention.cu 'attention_agrees'
plant "the backward pass overwrites a step that is still read" attention_backward.cu "__syncthreads(); /* this step's buffers" "/* this step's buffers" attention_backward.cu 'attention_agrees'
plant "the backward pass waits for one step too few" attention_backward.cu 'ptx_wait<1>();' 'ptx_wait<2>();' attention_backward.cu 'attention_agrees'
plant "a block's sum is read before it is written" vec.cuh '    __syncthreads();
    for (int w = 0; w < warps; w++) sum' '    for (int w = 0; w < warps; w++) sum' norm.cu 'norms_agree'
plant "decoding joins warps before they are done" decode.cu '    __syncthreads();
' '' decode.cu 'attention_decode_agrees'
plant "a matrix-vector product overwrites a slice that is still read" gemv.cu '        __syncthreads();
        for (int i' '        for (int i' gemv.cu 'linear_*'
# streams
plant "a GEMM does not wait for its weight" dequant.cu 'cuda_ok(c, cudaStreamWaitEvent(c->main, slot->filled, 0)' 'cuda_ok(c, cudaSuccess' dequant.cu 'linear_*'
plant "a weight is overwritten before it was read" dequant.cu 'cuda_ok(c, cudaStreamWaitEvent(c->side, slot->read, 0)' 'cuda_ok(c, cudaSuccess' dequant.cu 'linear_backward_sums_terms'
plant "nobody says that a weight was read" dequant.cu 'cuda_ok(c, cudaEventRecord(c->slot[c->open_slot].read, c->main)' 'cuda_ok(c, cudaSuccess' dequant.cu 'linear_backward_sums_terms'
plant "a weight is unpacked before it was uploaded" dequant.cu '    cuda_see_uploads(c);
' '' dequant.cu 'device:weights_are_there_*'
plant "pinned memory is filled again before the card has read it" copy.cu 'cuda_ok(c, cudaEventSynchronize(k->read[k->half])' 'cuda_ok(c, cudaSuccess' copy.cu 'device:uploads_*'
plant "a copy out begins before what it copies is there" copy.cu '    await(c, k->out, k->made, "a copy out");
' '' copy.cu 'device:copies_out_*'
plant "an update does not wait for the copy out of what it changes" flat.cu '    cuda_await_copies_out(cuda_of(dev));
' '' flat.cu 'device:copies_out_*'
plant "nobody waits for a copy out" copy.cu 'if (c->copies.pending && fine(c))' 'if (0)' copy.cu 'device:copies_out_*'
# bounds
plant "attention reads behind its example" attention.cuh 'bool valid = from + row < t.len && column < D;' 'bool valid = column < D;' 'attention.cu attention_backward.cu' 'attention_agrees'
plant "attention writes behind its example" attention.cuh 'if (row >= t.len || column >= D) continue;' 'if (column >= D) continue;' attention.cu 'attention_agrees'
plant "attention sees the next token" attention.cu 'key > query0' 'key > 1 + query0' attention.cu 'attention_agrees'
plant "swiglu goes on behind the end" elementwise.cu 'if (i >= n) return;' '' elementwise.cu 'swiglu_agrees'
plant "a norm goes on behind the last row" norm.cu 'if (at.row >= n) return;' '' norm.cu 'norms_agree'
plant "a plain GEMM goes on behind the end" gemm_plain.cu 'if (row >= g.M || column >= g.N) return;' '' gemm_plain.cu 'linear_takes_odd_shapes'
plant "the last columns are not checked in dropout" linear.cu 'i < 4 && k + i < K; i++) out' 'i < 4; i++) out' linear.cu 'lora_agrees'
# memories, alignment, arithmetic
plant "a kernel gets an address of the host" linear.cu 'lay->row_start, lay->rows,' 'lay->host_row_start, lay->rows,' linear.cu 'lora_agrees'
plant "a GEMM is promised more alignment than it has" blas.cu 'return (int)(all & -all);' 'return 16;' blas.cu 'linear_*'
plant "the head's sums are not scaled down when the maximum rises" head.cu 'dx[row * C + k] *= down;' ';' head.cu 'head_agrees'
plant "masks are keyed by the micro-batch and not by the row" linear.cu '(uint32_t)(t - m.row_start[row])' '(uint32_t)t' linear.cu 'lora_agrees'
plant "a code of NF4 is wrong" formats.cuh '0x1.45f5fep-4f' '0x1.55f5fep-4f' dequant.cu 'rows_are_moved'

# ranks on cards
plant_nccl "a group is not waited for before the next call" ': settle(c, "ncclGroupEnd", 0, err)' ': PAWL_OK'
plant_nccl "a receive is left out" 'for (int i = 0; i < nrecv' 'for (int i = 1; i < nrecv'
plant_nccl "a communicator is destroyed while it finalizes" 'settle(c, "ncclCommFinalize", GOODBYE_SECONDS, &unused) == PAWL_OK' 'true'

echo "$caught of $planted planted faults caught"
[ "$caught" = "$planted" ]
