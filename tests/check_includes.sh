#!/bin/sh
# Includes point one way: kernels/base <- kernels <- optim, dist, ckpt (which never include each other) <- train.
root=$2
cd "$root" || exit 1
bad=0
# forbid FOLDER REGEX: no file below FOLDER includes a path that matches.
forbid() {
    [ -d "$1" ] || return 0
    if grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' "^#include \"($2)" "$1"; then
        echo "$1 must not include these"
        bad=1
    fi
}
forbid kernels/base '(kernels/[^b]|kernels/b[^a]|optim|dist|ckpt|train)'
forbid kernels '(optim|dist|ckpt|train)/'
forbid optim '(dist|ckpt|train)/'
forbid dist '(optim|ckpt|train)/'
forbid ckpt '(optim|dist|train)/'
# Nothing above kernels/ and dist/ knows a backend.
for d in optim ckpt train; do
    [ -d $d ] || continue
    if grep -rnE --include='*.[ch]' '^# *if.*(CUDA|NCCL|MPI|AVX)' $d; then
        echo "$d must not know a backend"
        bad=1
    fi
done
exit $bad
