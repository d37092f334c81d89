#!/bin/bash
# scripts/launch: the systemd unit is one, and the Slurm job, with the commands of Slurm played here, hands the signal on and is requeued after exit 75 only.
root=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; exit 1; }
if command -v systemd-analyze >/dev/null; then
    sed "s|^ExecStart=[^ ]*|ExecStart=$(command -v true)|" "$root/scripts/launch/pawl@.service" >"$dir/pawl@.service"
    systemd-analyze verify "$dir/pawl@.service" >"$dir/log" 2>&1 || fail "the unit: $(cat "$dir/log")"
    [ -s "$dir/log" ] && fail "the unit: $(cat "$dir/log")"
else
    echo "systemd-analyze is not here: the unit is not verified"
fi
mkdir "$dir/bin"
# srun plays a run: until USR1, then exit 75; or at once what EXIT says.
cat >"$dir/bin/srun" <<'END'
#!/bin/bash
[ "$*" = "pawl train run.yaml" ] || exit 99
[ -n "${EXIT:-}" ] && exit "$EXIT"
trap 'exit 75' USR1
echo $$ >"$DIR/started.new" && mv "$DIR/started.new" "$DIR/started"
while :; do sleep 0.05; done
END
cat >"$dir/bin/scancel" <<'END'
#!/bin/bash
echo "scancel $*" >>"$DIR/called"
kill -USR1 "$(cat "$DIR/started")"
END
cat >"$dir/bin/scontrol" <<'END'
#!/bin/bash
echo "scontrol $*" >>"$DIR/called"
END
chmod +x "$dir/bin"/*
export PATH=$dir/bin:$PATH DIR=$dir SLURM_JOB_ID=7
bash "$root/scripts/launch/slurm.sh" run.yaml &
job=$!
until [ -e "$dir/started" ]; do sleep 0.05; done
kill -USR1 $job
wait $job
rc=$?
[ $rc = 75 ] || fail "the job that was told to stop: exit $rc, expected 75"
[ "$(cat "$dir/called")" = "scancel --signal=USR1 7.0
scontrol requeue 7" ] || fail "called: $(cat "$dir/called")"
rm "$dir/called"
for exit in 0 1 3; do
    EXIT=$exit bash "$root/scripts/launch/slurm.sh" run.yaml
    [ $? = $exit ] || fail "a run that ends with $exit: exit $?"
done
[ -e "$dir/called" ] && fail "requeued after an end: $(cat "$dir/called")"
echo "launch: the unit is verified, the job is requeued after exit 75 only"
