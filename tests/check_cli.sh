# check_cli.sh PAWL SOURCE: what a person sees of the command line: exit codes, one line an error, and configurations that must be accepted.
set -u
pawl=$1 source=$2
golden=${PAWL_GOLDEN:-$source/../shared/golden}
work=$(mktemp -d ./check_cli.XXXXXX); trap 'rm -rf "$work"' EXIT
export HF_HOME=$work/hf
failures=0

fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# expect CODE TEXT COMMAND...: the exit code, and a text on stdout or stderr.
expect() {
    local code=$1 text=$2; shift 2
    "$@" >"$work/out" 2>"$work/err"; local rc=$?
    [ $rc = "$code" ] || fail "$*: exit $rc, expected $code: $(cat "$work/err")"
    grep -qF -e "$text" "$work/out" "$work/err" || fail "$*: no \"$text\" in: $(cat "$work/out" "$work/err")"
}
# The same, and exactly one line on stderr, nothing on stdout.
expect_line() {
    expect "$@"
    [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] || fail "${*:3}: expected one line on stderr: $(cat "$work/err" "$work/out")"
}

expect 0 'pawl ' "$pawl" --version
expect 0 'Commands:' "$pawl" --help
expect_line 2 'expected a command' "$pawl"
expect_line 2 'unknown command "trian": did you mean train?' "$pawl" trian
expect_line 2 'unknown command "xyzzy"' "$pawl" xyzzy
for command in $("$pawl" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    expect 0 'Example:' "$pawl" "$command" --help
done

cat >"$work/run.yaml" <<'YAML'
base_model: no/model
datasets: [{path: no/data}]
output_dir: out
tf32: true
wandb_project: x
YAML
expect 0 'lora_r: 16' "$pawl" train "$work/run.yaml" --check
expect 0 'no meaning here, left out: tf32, wandb_project' "$pawl" train "$work/run.yaml" --check
expect 0 'base_model: no/model: neither a path here nor in the Hugging Face cache' "$pawl" train "$work/run.yaml" --check
expect 0 '`hf download no/data --repo-type dataset`' "$pawl" train "$work/run.yaml" --check
expect 0 'lora_r: 4' "$pawl" train --check "$work/run.yaml" --set lora_r=4
expect 0 'lora_r: 4' "$pawl" train --check "$work/run.yaml" --set=lora_r=8 --set lora_r=4
"$pawl" train -q "$work/run.yaml" --check 2>"$work/err" >"$work/out"
grep -q 'no meaning' "$work/err" && fail '-q does not silence what is only said'
expect 0 'per_device_train_batch_size' "$pawl" train --help-keys
expect_line 1 "--set: lora_rr: unknown key: did you mean lora_r?" "$pawl" train "$work/run.yaml" --check --set lora_rr=4
expect_line 1 "$work/no.yaml: No such file or directory" "$pawl" train "$work/no.yaml" --check
expect_line 2 'expected KEY=VALUE' "$pawl" train "$work/run.yaml" --check --set lora_r
expect_line 2 'unknown option --chek: did you mean --check?' "$pawl" train "$work/run.yaml" --chek
expect_line 2 '--set: KEY=VALUE is missing' "$pawl" train "$work/run.yaml" --set
expect_line 2 'unexpected argument "b.yaml"' "$pawl" train "$work/run.yaml" b.yaml
expect_line 2 '--check takes no argument' "$pawl" train "$work/run.yaml" --check=1
expect_line 2 'expected RUN.yaml' "$pawl" train --check
expect_line 1 "$work: is a directory: expected RUN.yaml" "$pawl" train "$work"
printf 'base_model: m\nlora_r: 1x\n' >"$work/bad.yaml"
expect_line 1 "$work/bad.yaml:2:9: lora_r: expected a whole number from 1 to 8192, found \"1x\"" "$pawl" train "$work/bad.yaml" --check

expect 0 'disk_sync' "$pawl" doctor --dir "$work"
expect 0 '"instruction_set":"' "$pawl" doctor --json --dir "$work"
expect_line 1 "$work/none" "$pawl" doctor --dir "$work/none"

# The resolved configuration of each file reads back as itself.
accept() {
    "$pawl" train "$1" --check >"$work/out.yaml" 2>"$work/err" || { fail "$1: $(cat "$work/err")"; return; }
    "$pawl" train "$work/out.yaml" --check 2>"$work/err" | cmp -s - "$work/out.yaml" || fail "$1: the resolved configuration does not read back: $(cat "$work/err")"
}
for file in "$source"/configs/*.yaml; do
    case $file in */prices.yaml) ;; *) accept "$file" ;; esac
done
if [ -d "$golden/axolotl" ]; then
    count=0
    for file in "$golden"/axolotl/*.y*ml; do accept "$file"; count=$((count + 1)); done
    echo "$count configurations of Axolotl accepted"
else
    echo "skipped: no Axolotl configurations in $golden/axolotl (PAWL_GOLDEN)"
fi

[ $failures = 0 ] && echo 'command line: all as expected'
exit $((failures > 0))
