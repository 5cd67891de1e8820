#!/bin/sh
# Stands in for `tally`: runs the program, passes SIGTERM on, leaves the report that the test has prepared.
folder=$(dirname "$0")
echo "$*" >> "$folder/calls"
env | grep ^TALLY_ >> "$folder/settings"
while [ "$1" != -- ]; do
    case $1 in
    --priority) priority=$2 ;;
    --report) report=$2 ;;
    esac
    shift
done
shift
trap 'kill "$child"' TERM
STUB_SHARED=1 "$@" &
child=$!
wait "$child"
code=$?
# Interrupted by the signal; the program has yet to end.
wait "$child" 2> /dev/null
cp "$folder/$priority.json" "$report/1-1.json"
exit "$code"
