#!/bin/bash
# Bad input: one line that says what, where and what to do, exit 1 or 2, and nothing that was there is lost.
set -u
pawl=$1 root=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export XDG_CACHE_HOME=$dir/cache
bad=0
row='{"messages": [{"role": "user", "content": "word1 word2"}, {"role": "assistant", "content": "answer"}]}'
for i in 1 2 3 4 5 6; do echo "$row" | sed "s/word1/word$i/"; done >good.jsonl
cp -r "$root/tests/golden/llama" model

yaml() { # MODEL DATA: the smallest configuration
    printf 'base_model: %s\ndatasets:\n  - path: %s\n    type: chat_template\nlora_r: 4\nsequence_len: 128\nmicro_batch_size: 2\noutput_dir: out\n' "$1" "$2" >run.yaml
}
# expect CODE TEXT COMMAND...: exit code, and the last line of stderr holds TEXT (fixed text) and is one of pawl's own.
expect() {
    code=$1 text=$2
    shift 2
    "$@" >stdout 2>stderr
    rc=$?
    if [ $rc != "$code" ] || ! tail -n 1 stderr | grep -qF -- "$text" || ! tail -n 1 stderr | grep -q '^pawl[a-z ]*: '; then
        echo "FAILED: $* : exit $rc, expected $code and '$text'; stderr:"
        cat stderr
        bad=1
    fi
}
train() { timeout 60 "$pawl" train run.yaml -q "$@"; }

yaml nowhere good.jsonl;                                expect 1 'nowhere' train
yaml model nowhere.jsonl;                               expect 1 'nowhere.jsonl' train
head -c 5000 "$root/tests/golden/llama.gguf" >cut.gguf
yaml cut.gguf good.jsonl;                               expect 1 'cut.gguf' train
cp -r model cut; head -c 20000 model/model.safetensors >cut/model.safetensors
yaml cut good.jsonl;                                    expect 1 'model.safetensors' train
cp -r model shape; sed -i 's/"intermediate_size": 160/"intermediate_size": 144/' shape/config.json
yaml shape good.jsonl;                                  expect 1 'expected shape (144, 64), found (160, 64)' train
cp -r model arch; sed -i 's/LlamaForCausalLM/MambaForCausalLM/' arch/config.json
yaml arch good.jsonl;                                   expect 1 "architecture 'MambaForCausalLM' is not supported" train
cp -r model json; echo '{"architectures": [' >json/config.json
yaml json good.jsonl;                                   expect 1 'json/config.json' train

yaml model good.jsonl; echo 'lora_rr: 8' >>run.yaml;    expect 1 "lora_r" train
yaml model good.jsonl; echo 'learning_rate: quick' >>run.yaml; expect 1 'run.yaml:9:' train
yaml model good.jsonl; echo '  x: [' >>run.yaml;        expect 1 'run.yaml:' train
yaml model good.jsonl; echo 'fp16: true' >>run.yaml;    expect 1 'bf16' train
yaml model good.jsonl;                                  expect 1 'lora_target_modules' train --set 'lora_target_modules=[q_prj]'

echo 'not json' | cat good.jsonl - >text.jsonl
yaml model text.jsonl;                                  expect 1 'text.jsonl:7' train
echo '{"messages": "no list"}' | cat good.jsonl - >field.jsonl
yaml model field.jsonl;                                 expect 1 'field.jsonl:7' train
: >empty.jsonl
yaml model empty.jsonl;                                 expect 1 'empty.jsonl' train
yaml model good.jsonl;                                  expect 1 'sequence_len' train --set sequence_len=4
yaml model good.jsonl;                                  expect 1 'output_dir: /proc/nowhere' train --set output_dir=/proc/nowhere/out

# NaN: the run stops, names the examples, and the last good checkpoint stays.
yaml model good.jsonl
train --set save_steps=1 --set max_steps=2 || { echo "FAILED: a good run"; bad=1; }
cp -r model nan
python3 - 2>/dev/null <<'END' || echo "no python3: the NaN case is skipped"
import struct
f = open("nan/model.safetensors", "r+b")
n, = struct.unpack("<Q", f.read(8))
f.seek(8 + n)
f.write(struct.pack("<f", float("nan")) * 20000)
END
if ! cmp -s model/model.safetensors nan/model.safetensors; then
    yaml nan good.jsonl;                                expect 1 'good.jsonl' train --set output_dir=nan_out
    grep -q 'step 1' stderr || { echo "FAILED: the NaN message names no step: $(cat stderr)"; bad=1; }
fi

# What changed since the checkpoint is named, and the checkpoint is still there.
yaml model good.jsonl;                                  expect 1 'lora_alpha' train --set lora_alpha=7
cp -r model other; sed -i 's/"rms_norm_eps": 1e-05/"rms_norm_eps": 1e-06/' other/config.json
printf '\x01' | dd of=other/model.safetensors bs=1 seek=$(($(stat -c %s other/model.safetensors) - 3)) conv=notrunc 2>/dev/null
rm -rf model && mv other model;                         expect 1 'base model changed' train --set max_steps=2
[ -e out/checkpoint-2/manifest.json ] || { echo "FAILED: the checkpoint is gone"; bad=1; }

expect 2 'train' "$pawl" train
expect 2 'tarin' "$pawl" tarin
expect 2 '--frsh' "$pawl" train run.yaml --frsh
exit $bad
