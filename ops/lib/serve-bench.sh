# Shared by the measurements of ops/serve-bench: the simulator, the service and its load, all on
# loopback, each ended by its process id. Source it after common.sh and yardstick.sh; it runs
# nothing by itself. The script that sources it defines `carillon`, `work` and `usage`.

topic=com.example.load
simulator=
service=
# A client that runs beside others.
background=

# stop SIGNAL PID : waits for its end, which may take long: what is in flight is still sent.
stop() {
  [[ -n $2 ]] || return 0
  kill "-$1" "$2" 2>/dev/null || true
  wait "$2" 2>/dev/null || true
}
stop_all() {
  stop KILL "$background"
  stop KILL "$service"
  stop KILL "$simulator"
  background=
  service=
  simulator=
}
trap stop_all EXIT

# wait_for FILE PID WHAT : until the process has written a line.
wait_for() {
  local end=$((SECONDS + 300))
  until [[ -s $1 ]]; do
    ((SECONDS < end)) || die "$3 has not started within 5 minutes: $(cat "$1.log")"
    kill -0 "$2" 2>/dev/null || die "$3 has not started: $(cat "$1.log")"
    sleep 0.02
  done
}

# make_credentials [COUNT] : certificates of $topic, and of the apps of `apps`.
make_credentials() {
  rm -rf "$work/certificates"
  # shellcheck disable=SC2046 # No topic has a space.
  "$carillon" simulate --make-certificates "$work/certificates" --app "$topic" \
    $( ((${1:-0} == 0)) || seq --format='--app com.example.app%g' "$1") >"$work/certificates.log"
}

# start_simulator FLAGS… : leaves its process in $simulator and its ports in $http2_port and
# $binary_port.
start_simulator() {
  rm -f "$work/simulator"
  "$carillon" simulate --gateway-port 0 --feedback-port 0 --http2-port 0 --channels-port 0 --json \
    --certificate "$work/certificates/server.pem" --key "$work/certificates/server.key" \
    --client-ca "$work/certificates/ca.pem" "$@" >"$work/simulator" 2>"$work/simulator.log" &
  simulator=$!
  wait_for "$work/simulator" "$simulator" "The simulator"
  http2_port=$(value http2 "$(head -n 1 "$work/simulator")")
  binary_port=$(value gateway "$(head -n 1 "$work/simulator")")
}

# app ID PORT [MORE] [TOPIC] : an app of the configuration. MORE are further lines, with two spaces
# before.
app() {
  local topic=${4:-$topic}
  printf '%s\n' "- id: $1" "  topic: $topic" "  gateway: \"localhost:$2\"" \
    "  trust: certificates/ca.pem" \
    "  credential: { certificate: certificates/$topic.pem, key: certificates/$topic.key }"
  printf '%b' "${3:-  transport: http2\\n}"
  [[ -z ${durability:-} ]] || echo "  durability: $durability"
}

# configure SYNC [API] <apps : a new journal and a new store.
configure() {
  rm -rf "$work/journal" "$work"/store.db*
  {
    if [[ -n ${postgres:-} ]]; then
      sql "$database_port" 'DROP DATABASE IF EXISTS carillon'
      sql "$database_port" 'CREATE DATABASE carillon'
      echo "store: { postgres: { hosts: [\"127.0.0.1:$database_port\"], database: carillon, user: carillon } }"
    fi
    printf '%s\n' "journal: { directory: journal, sync: $1 }" \
      "api: { listen: \"127.0.0.1:0\", max-body: 64MiB${2:-} }" "admin: { listen: \"127.0.0.1:0\" }" \
      "shutdown: { drain: 300s }" "apps:"
    cat
  } >"$work/carillon.yaml"
  key=$("$carillon" key create --config "$work/carillon.yaml" --name load --all-apps --scope admin | tail -n 1)
}

start_service() {
  rm -f "$work/service"
  "$carillon" serve --config "$work/carillon.yaml" --json >"$work/service" 2>"$work/service.log" &
  service=$!
  wait_for "$work/service" "$service" "carillon serve"
  api=http://127.0.0.1:$(value api "$(cat "$work/service")")
}

# ask METHOD PATH [FILE]
ask() {
  curl --silent --show-error --fail-with-body --max-time 300 --request "$1" \
    --header "Authorization: Bearer $key" ${3:+--data-binary "@$3"} "$api$2"
}

# Ends the service when everything has its outcome, then the simulator. The sums must agree:
# $acknowledged, what the store has, and what the simulator has counted.
finish() {
  stop TERM "$service"
  service=
  stop TERM "$simulator"
  simulator=
  accounted=$(stored_outcomes)
  arrived=$(grep -oE '"accepted":[0-9]+' <<<"$(tail -n 1 "$work/simulator")" | cut -d : -f 2 |
    awk '{ sum += $1 } END { print sum + 0 }')
  [[ $accounted == "$acknowledged" && $arrived == "$acknowledged" ]] ||
    die "Acknowledged $acknowledged, accounted $accounted, arrived $arrived: these must be equal."
}

# How many notifications have an outcome in the store.
stored_outcomes() {
  local sums='SELECT (SELECT coalesce(sum(last - first + 1), 0) FROM accepted) + (SELECT count(*) FROM '
  if [[ -n ${postgres:-} ]]; then
    sql "$database_port" "${sums}not_accepted)" carillon
  else
    sqlite3 -cmd '.timeout 5000' "$work/store.db" "${sums}notAccepted)"
  fi
}

# make_tokens COUNT : hexadecimal, one a line.
make_tokens() { head --bytes $((32 * $1)) /dev/urandom | basenc --base16 --wrap=64 | tr A-F a-f; }
payload='{"aps":{"alert":"About a hundred bytes of a text that many devices get at the same time.","badge":1}}'
# make_batch LINES FILE : the lines differ in their token.
make_batch() { make_tokens "$1" | sed "s|.*|{\"token\":\"&\",\"payload\":$payload}|" >"$2"; }
# make_personal_batch LINES FILE : the lines differ in their text as well.
make_personal_batch() {
  make_tokens "$1" | awk '{ printf "{\"token\":\"%s\",\"payload\":{\"aps\":{\"alert\":\"Hello number %d, here is a text of your own, about as long as others.\"}}}\n", $0, NR }' >"$2"
}

# ticks PID : its processor time so far, user and system.
ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }
# microseconds TICKS COUNT
microseconds() { awk -v t="$1" -v hertz="$(getconf CLK_TCK)" -v n="$2" 'BEGIN { printf "%.2f", (n > 0 ? t / hertz * 1e6 / n : 0) }'; }
resident_megabytes() { awk '/^VmRSS/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
peak_megabytes() { awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
descriptors() { find "/proc/$1/fd" -maxdepth 1 -type l | wc -l; }

# load CLIENTS REQUESTS PATH FILE : posts the file, which is one notification. Each request must be
# answered by 202. Leaves what `measure_times` does.
load() {
  rm -f "$work/times"
  h2load --h1 --clients="$1" --requests="$2" --threads=1 --data="$4" --header="Authorization: Bearer $key" \
    --log-file="$work/times" "$api$3" >"$work/h2load" 2>&1 || die "h2load: $(cat "$work/h2load")"
  grep -q "status codes: $2 2xx" "$work/h2load" || die "Not every request was taken in: $(cat "$work/h2load")"
  measure_times
}
# load_batches CLIENTS REQUESTS PATH FILE : the same for a file of many lines, which the app's queue
# may have no room for. Such a request waits as long as it is told to, and is sent again.
load_batches() {
  python3 ops/lib/batches.py "${api##*:}" "$key" "$3" "$4" "$1" "$2" >"$work/times" 2>"$work/times.log" ||
    die "The batches: $(cat "$work/times.log")"
  (($(grep -c -P '\t202\t' "$work/times") == $2)) || die "Not every request was taken in: $work/times"
  measure_times
}
# Leaves $seconds from the first request to the last answer, of the times of requests that were
# taken in, in milliseconds, $p50 and $p99, and how many requests were told to come back in
# $refused.
measure_times() {
  seconds=$(awk 'NR == 1 || $1 < first { first = $1 } $1 + $3 > last { last = $1 + $3 }
    END { printf "%.3f", (last - first) / 1e6 }' "$work/times")
  refused=$(awk '$2 == 429' "$work/times" | wc -l)
  p50=$(percentile 50)
  p99=$(percentile 99)
}
# percentile P : of the times of $work/times, in milliseconds. The third column has microseconds.
percentile() {
  awk '$2 == 202 { print $3 }' "$work/times" | sort -n | awk -v p="$1" '{ v[NR] = $1 }
    END { i = int(NR * p / 100 + 0.999999); printf "%.2f", v[i < 1 ? 1 : i] / 1000 }'
}
