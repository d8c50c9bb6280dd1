# Shared by both parts of ops/yardstick: limits of options, figures in outputs, the CPU time of a
# command, and medians. Source it after common.sh; it runs nothing by itself. The script that
# sources it defines `usage` and `work`, its folder.

within() {
  [[ $2 =~ ^[0-9]{1,9}$ ]] && ((10#$2 >= $3 && 10#$2 <= $4)) ||
    usage "$1 must be a number from $3 to $4, not \"$2\"."
}

# value KEY TEXT : the first number behind KEY= or "KEY":, not behind a longer key that ends in KEY.
value() {
  local text=$2
  [[ $text =~ (^|[^A-Za-z])$1\"?[=:]([0-9.]+) ]] ||
    die "There is no \"$1\" in: ${text:-nothing at all}"
  printf '%s' "${BASH_REMATCH[2]}"
}
divide() { awk -v a="$1" -v b="$2" -v format="%.$3f" 'BEGIN { printf format, (b > 0 ? a / b : 0) }'; }

# timed COMMAND… : its output in $output, its CPU time, user and system, in $cpu_seconds.
timed() {
  local status=0
  TIMEFORMAT='%3U %3S'
  { time "$@" >"$work/run.out" 2>"$work/run.log"; } 2>"$work/run.time" || status=$?
  if ((status != 0)); then
    cat "$work/run.log" "$work/run.out" >&2
    die "\"$*\" ended with exit status $status."
  fi
  output=$(cat "$work/run.out")
  cpu_seconds=$(awk '{ print $1 + $2 }' "$work/run.time")
}

grouped() { sed -E ':a;s/([0-9])([0-9]{3})($|,)/\1,\2\3/;ta' <<<"$1"; }

# median CONTESTANT COLUMN DIGITS : of the lines in $work/results
median() {
  awk -v who="$1" -v column="$2" '$1 == who { print $column }' "$work/results" | sort -g |
    awk -v format="%.$3f" '{ v[NR] = $1 } END { printf format, (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}
