#!/bin/bash
# Plays rclone for tests/test_remote.c: "fake:PATH" is $FAKE_RCLONE/store/PATH. $FAKE_RCLONE/calls gets a line a call; what the file $FAKE_RCLONE/rule says happens to call number N:
#   "N fail", "N late" (does its work, then fails), "N hang", "N die", "N run COMMAND" (before its work)
verb=$1
shift
list= from=() n=0
while [ $# -gt 0 ]; do
    case $1 in
    --files-from-raw) list=$2; shift ;;
    --*) ;;
    fake:*) from+=("$FAKE_RCLONE/store/${1#fake:}") ;;
    nowhere:*)
        echo "2026/11/30 19:00:00 Failed to create file system for \"$1\": didn't find section in config file" >&2
        exit 1
        ;;
    *) from+=("$1") ;;
    esac
    shift
done
echo "$verb ${from[*]}" >>"$FAKE_RCLONE/calls"
n=$(wc -l <"$FAKE_RCLONE/calls")
at= how= command=
[ -e "$FAKE_RCLONE/rule" ] && read -r at how command <"$FAKE_RCLONE/rule"
[ "$at" = "$n" ] || how=
failed() {
    printf '2026/11/30 19:00:00 NOTICE: something before\n2026/11/30 19:00:01 ERROR : the store\tis on fire\n' >&2
    exit 1
}
case $how in
fail) failed ;;
hang) sleep 1000 & wait ;;
die) kill -9 $$ ;;
run) eval "$command" ;;
esac
case $verb in
version) ;;
lsf) cd "${from[0]}" 2>/dev/null || exit 3; find . -type f -printf '%s %P\n' ;;
cat) cat "${from[0]}" || exit 1 ;;
copyto) mkdir -p "$(dirname "${from[1]}")" && cp "${from[0]}" "${from[1]}" || exit 1 ;;
copy)
    mkdir -p "${from[1]}" || exit 1
    if [ -n "$list" ]; then
        while read -r f; do
            [ -e "${from[0]}/$f" ] || continue
            mkdir -p "$(dirname "${from[1]}/$f")" && cp "${from[0]}/$f" "${from[1]}/$f" || exit 1
        done <"$list"
    else
        cp -RL "${from[0]}/." "${from[1]}/" || exit 1
    fi
    ;;
delete) while read -r f; do rm -f "${from[0]}/$f"; done <"$list" ;;
*) echo "fake rclone: $verb?" >&2; exit 2 ;;
esac
[ "$how" != late ] || failed
