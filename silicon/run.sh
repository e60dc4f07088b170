#!/usr/bin/env bash
# The proof vehicle on a machine with an NVIDIA GPU: ./run.sh RESULTS [STEP...]. Everything it needs lies beside it; CUDA's tools
# (ptxas, compute-sanitizer) are used where they are there. Each step has its own time limit and its own log in RESULTS, and none
# stops the next. At the end record.py writes RESULTS/DATE-GPU.json and .md.
# Steps: facts ptxas ops model graph kernels bench sanitize (all of them when none is named), and peers, which runs only when named: it
# needs Python with torch and transformers, and minutes.
set -u
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [ $# -lt 1 ]; then
    echo "usage: run.sh RESULTS [STEP...]" >&2
    exit 2
fi
mkdir -p "$1" || exit 1
results="$(cd "$1" && pwd)"
shift
steps=" ${*:-facts ptxas ops model graph kernels bench sanitize} "

for folder in /usr/local/cuda/bin /usr/local/cuda-13/bin /usr/local/cuda-12/bin; do
    [ -d "$folder" ] && PATH="$PATH:$folder"
done
export ZYNFER_HIP_LIBRARY="$here/libzynfer_hip_over_cuda.so"
export ZYNFER_EMULATOR_LIBRARY="$here/libamdhip64_emulator.so"
export ZYNFER_SILICON_PTX="$here/zynfer.ptx"
export ZYNFER_TESTS_FOLDER="$here/tests"
export HW=1
chmod +x "$here"/zynfer "$here"/ops "$here"/model "$here"/hip_graph "$here"/kernels
cd "$here" || exit 1
cp commit "$results/commit"

# step NAME SECONDS COMMAND...: runs it, its output to RESULTS/NAME.log, its end to RESULTS/steps.tsv.
step() {
    local name="$1" limit="$2" start end rc
    shift 2
    echo "== $name: $*"
    start="$(date +%s.%N)"
    timeout -k 10 "$limit" "$@" >"$results/$name.log" 2>&1
    rc=$?
    end="$(date +%s.%N)"
    printf '%s\t%s\t%s\t%s\n' "$name" "$rc" "$(echo "$end $start" | awk '{printf "%.1f", $1 - $2}')" "${*//$results/RESULTS}" >>"$results/steps.tsv"
    echo "   ended with $rc"
    [ "$rc" -eq 0 ] || tail -n 15 "$results/$name.log"
}
wanted() { case "$steps" in *" $1 "*) true ;; *) false ;; esac }

: >"$results/steps.tsv"
if wanted facts; then
    step facts 60 nvidia-smi --format=csv \
        --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,clocks.sm,clocks.mem,power.limit,temperature.gpu
    step devices 60 ./zynfer devices
fi
if wanted ptxas && command -v ptxas >/dev/null 2>&1; then
    step ptxas 120 ptxas -arch=sm_90 -v zynfer.ptx -o "$results/zynfer.cubin"
fi
if wanted ops; then
    step ops 300 ./ops --test-threads 8
fi
if wanted model; then
    step model 300 ./model --test-threads 8 emulator:: decode:: quantized:: kept:: kv::
fi
if wanted graph; then
    # This test opens what it takes for the emulator's library: here the one over the driver, so that its graphs are the card's.
    step graph 60 env ZYNFER_EMULATOR_LIBRARY=./libzynfer_hip_over_cuda.so ./hip_graph
fi
if wanted kernels; then
    step kernels 120 ./kernels
fi
if wanted bench; then
    nvidia-smi --format=csv,noheader -lms 500 \
        --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu >"$results/clocks.csv" 2>/dev/null &
    sampler=$!
    bench() { step "bench_$1" 180 ./zynfer bench --backend amd-hip --synthetic qwen3-0.6b -r 5 --json "${@:2}"; }
    bench pp512 -p 512 -n 0
    bench pp2048 -p 2048 -n 0
    # Each way of decoding that this build has, the ones compared beside each other.
    plans="$(./zynfer bench -h 2>/dev/null | grep -oE 'possible values: [^]]*unfused[^]]*' | sed 's/possible values: //; s/,//g')"
    for plan in ${plans:-default}; do
        flags=(-p 0 -n 128)
        [ "$plan" = default ] || flags+=(--plan "$plan")
        bench "tg128_$plan" "${flags[@]}"
        bench "tg128_d512_$plan" "${flags[@]}" -d 512
    done
    # Quantized weights, by the launches of each operation and by the resident kernels.
    for quant in int8 int4 fp8-e4m3; do
        bench "pp512_$quant" -p 512 -n 0 --quant "$quant"
        for plan in unfused persistent; do
            bench "tg128_d512_${plan}_$quant" -p 0 -n 128 -d 512 --plan "$plan" --quant "$quant"
        done
    done
    # Matrices in several schemes, by the kernels that read a table: as files of llama.cpp mix them, and beside the kernels of one scheme with almost
    # the same bytes.
    mixture=(--quant int4m:32 --keep embed=int8:32,attn_v=int8:32,down=int8:32)
    for plan in unfused persistent; do
        bench "tg128_d512_${plan}_mixture" -p 0 -n 128 -d 512 --plan "$plan" "${mixture[@]}"
    done
    bench pp512_mixture -p 512 -n 0 "${mixture[@]}"
    for quant in int8 int4 bf16; do
        bench "tg128_d512_table_$quant" -p 0 -n 128 -d 512 --plan persistent --quant "$quant" --keep attn_k=int8:128
        bench "tg128_d512_own_$quant" -p 0 -n 128 -d 512 --plan persistent --quant "$quant"
    done
    # Both sides in 8 bits, beside the same weights with activations as they are.
    for tokens in 512 2048; do
        bench "pp${tokens}_int8_again" -p "$tokens" -n 0 --quant int8
        bench "pp${tokens}_int8_activations" -p "$tokens" -n 0 --quant int8 --activations int8
    done
    # A cache in formats, beside bf16's by the same plan (above).
    for kv in f16 int8 fp8; do
        bench "tg128_d512_unfused_kv_$kv" -p 0 -n 128 -d 512 --plan unfused --kv "$kv"
        bench "pp512_kv_$kv" -p 512 -n 0 --kv "$kv" --plan unfused
    done
    kill "$sampler" 2>/dev/null
fi
if wanted peers; then
    step peers 420 python3 peers.py "$results" --commit "$(cat commit)"
fi
if wanted sanitize && command -v compute-sanitizer >/dev/null 2>&1; then
    # One test of each operation: under these tools a launch takes milliseconds. The emulator's launches run beside them, unwatched.
    selection=(argmax:: top_k::ties embed:: kv_append:: rope:: norms:: elementwise:: linear::routes linear::widths attention:: kv_formats:: w8a8::
        quantized::widths quantized::embeddings
        attention_formats::one_token attention_formats::every_pair)
    step memcheck 240 compute-sanitizer --tool memcheck --error-exitcode 9 ./ops --test-threads 1 "${selection[@]}"
    step racecheck 180 compute-sanitizer --tool racecheck --error-exitcode 9 ./ops --test-threads 1 \
        argmax:: top_k::ties norms:: linear::routes attention:: w8a8::products w8a8::rounded_then attention_formats::one_token
    step synccheck 120 compute-sanitizer --tool synccheck --error-exitcode 9 ./ops --test-threads 1 \
        argmax:: top_k::ties norms:: linear::routes attention:: w8a8::products w8a8::rounded_then attention_formats::one_token
    step memcheck_run 120 compute-sanitizer --tool memcheck --error-exitcode 9 ./zynfer run \
        tests/fixtures/tiny-qwen3 --backend amd-hip --prompt "The golden ring" --greedy --max-new 4
fi
python3 record.py "$results"
