# What ops/cluster does. Source it after serve-bench.sh and database.sh; it runs nothing by itself.
# The script that sources it defines `count`, `seconds`, `rounds`, `carillon` and `work`.

# The services: process, API and configuration by number.
nodes=()
apis=()
registrations=
holder=
forwarder=
declare -A outcomes=()

# The process of a server, and those of its sessions.
processes() { pgrep --parent "$(head -n 1 "$database/$1/postmaster.pid")" && head -n 1 "$database/$1/postmaster.pid"; }
end_all() {
  local node
  [[ -z $database ]] || kill -CONT $(processes primary 2>/dev/null) $(processes standby 2>/dev/null) 2>/dev/null ||
    true
  stop KILL "$registrations"
  stop KILL "$holder"
  [[ -z $forwarder ]] || kill -CONT "$forwarder" 2>/dev/null || true
  stop KILL "$forwarder"
  for node in "${nodes[@]}"; do
    [[ -z $node ]] || kill -CONT "$node" 2>/dev/null || true
    stop KILL "$node"
  done
  nodes=()
  stop_all
  end_databases
  database=
}
# until_true SECONDS WHAT COMMAND… : tries it again until it holds, every $pause seconds.
pause=0.05
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    ((SECONDS < end)) || die "$what: not in time. See $work."
    sleep "$pause"
  done
}
now() { printf '%s' "$((${EPOCHREALTIME/[.,]/} / 1000))"; }
# The clock of the simulator's record.
monotonic() { python3 -c 'import time; print(time.monotonic_ns() // 1000000)'; }
# note KIND NAME VALUE : a figure of a round.
note() { printf '%s %s %s\n' "$1" "$2" "$3" >>"$work/figures"; }
show_figures() {
  [[ -s $work/figures ]] || return 0
  heading "Figures of $rounds round(s)"
  python3 ops/lib/cluster_figures.py "$work/figures"
}

# MARK: Database

start_servers() {
  port=$((20000 + RANDOM % 10000))
  present=$port
  make_database primary
  start_database primary "$port"
  as_user "$tools/pg_basebackup" --host="$database" --port="$port" --username=carillon --write-recovery-conf \
    --checkpoint=fast --pgdata="$database/standby" >>"$work/database.log" 2>&1 || die "$(cat "$work/database.log")"
  start_database standby $((port + 1))
  sql "$port" "ALTER SYSTEM SET synchronous_standby_names = '*'"
  sql "$port" "SELECT pg_reload_conf()" >/dev/null
  until_true 30 "The standby connects" is_synchronous
  sql "$port" "CREATE DATABASE carillon"
}
is_synchronous() { [[ $(sql "$port" "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1 ]]; }
# query STATEMENT : of the services' database.
query() { sql "$present" "$1" carillon; }

# MARK: Services

# configure_node NUMBER [MORE [HOSTS]] : MORE are further lines of its app, as in `app`.
configure_node() {
  local hosts=${3:-"\"127.0.0.1:$port\", \"127.0.0.1:$((port + 1))\""}
  mkdir -p "$work/n$1"
  {
    printf '%s\n' "journal: { directory: journal, sync: interval }" \
      "store: { postgres: { hosts: [$hosts], database: carillon, user: carillon } }" \
      "cluster: { node: n$1 }" \
      "api: { listen: \"127.0.0.1:0\", max-body: 512MiB }" "admin: { listen: \"127.0.0.1:0\" }" "apps:"
    app news "$http2_port" "${2:-}  transport: http2\n" | sed 's|certificates/|../certificates/|g'
  } >"$work/n$1/carillon.yaml"
}
start_node() {
  rm -f "$work/n$1/service"
  "$carillon" serve --config "$work/n$1/carillon.yaml" --json >"$work/n$1/service" 2>>"$work/n$1/service.log" &
  nodes[$1]=$!
  wait_for "$work/n$1/service" "${nodes[$1]}" "carillon serve of n$1"
  apis[$1]=http://127.0.0.1:$(value api "$(cat "$work/n$1/service")")
  api=${apis[$1]}
}
# stop_node SIGNAL NUMBER
stop_node() {
  stop "$1" "${nodes[$2]}"
  nodes[$2]=
}
# on NUMBER METHOD PATH
on() {
  local api=${apis[$1]}
  shift
  ask "$@"
}
post() {
  curl --silent --show-error --fail-with-body --max-time 300 --header "Authorization: Bearer $key" \
    --header "Content-Type: $3" --data-binary "@$2" "$api$1"
}

# begin COUNT SERVICES [MORE] [SIMULATOR FLAGS…] : a database with so many devices, and services.
begin() {
  local devices=$1 services=$2 more=${3:-} number
  shift 3 || shift $#
  rm -rf "$work"/n[0-9] "$work/record.jsonl"
  start_servers
  start_simulator --record "$work/record.jsonl" "$@"
  for ((number = 1; number <= services; number++)); do configure_node "$number" "$more"; done
  key=$("$carillon" key create --config "$work/n1/carillon.yaml" --name load --all-apps --scope admin | tail -n 1)
  start_node 1
  { echo token; make_tokens "$devices"; } >"$work/devices.csv"
  post /v1/apps/news/devices:import "$work/devices.csv" text/csv >"$work/import.json"
  query 'ANALYZE devices' >/dev/null
  for ((number = 2; number <= services; number++)); do start_node "$number"; done
}
# start_campaign [RATE]
start_campaign() {
  printf '{"name":"sale","payload":%s%s,"audience":{"source":"devices"}}' "$payload" "${1:+,\"rateLimit\":$1}" \
    >"$work/campaign.json"
  api=${apis[1]}
  path=/v1/apps/news/campaigns
  path+=/$(post "$path" "$work/campaign.json" application/json | grep -oE '"id":"[^"]+"' | head -n 1 | cut -d '"' -f 4)
  on 1 POST "$path:start" >/dev/null
  started=$(now)
}
# arrived_are NUMBER : of notifications, in the record so far.
arrived_are() { (($(wc -l <"$work/record.jsonl") >= $1)); }
has_ended() { on "$1" GET "$path" 2>/dev/null | grep -q '"endedAt":"'; }

# finish_round KIND SERVICE : the campaign ends, and the account is compared with the record.
finish_round() {
  local kind=$1 node status=0
  # What asks all the time takes the processors from those that are measured.
  pause=0.5 until_true 900 "The campaign ends" has_ended "$2"
  note "$kind" "until all have their outcome, s" "$(divide $(($(now) - started)) 1000 1)"
  on "$2" GET "$path/account" >"$work/account.json"
  on "$2" GET "$path/outcomes.csv" >"$work/outcomes.csv"
  for node in "${!nodes[@]}"; do stop_node TERM "$node"; done
  stop TERM "$simulator"
  simulator=
  "$carillon" verify --account "$work/account.json" --outcomes "$work/outcomes.csv" --record "$work/record.jsonl" ||
    status=$?
  python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" >"$work/summary"
  local lost twice listed
  lost=$(value lost "$(cat "$work/summary")")
  twice=$(value twice "$(cat "$work/summary")")
  listed=$(value possibleDuplicates "$(cat "$work/account.json")")
  note "$kind" "lost" "$lost"
  note "$kind" "got it twice" "$twice"
  note "$kind" "possible duplicates in the account" "$listed"
  say "$count devices, $lost without the notification, $twice with two, $listed possible duplicates."
  ((status == 0)) || die "carillon verify has found differences. See $work."
  ((lost == 0)) || die "$lost devices have got nothing. See $work."
  ((twice <= listed)) || die "$twice have got it twice, and $listed were counted. See $work."
  end_databases
  database=
}

# MARK: What happens

measure_kill() {
  heading "$count devices, three services, and one of them is killed in the middle"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / 20))
  until_true 120 "The campaign sends" arrived_are $((count / 4))
  local victim=2 incarnation killed
  incarnation=$(query "SELECT incarnation FROM nodes WHERE name = 'n$victim' ORDER BY incarnation DESC LIMIT 1")
  [[ $(query "SELECT count(*) FROM segments WHERE owner = $incarnation AND NOT is_settled") != 0 ]] ||
    die "n$victim carries nothing. See $work."
  local flight
  flight=$(on "$victim" GET /v1/apps/news | of_node "$victim" nodes pending)
  killed=$(now)
  stop_node KILL "$victim"
  until_true 60 "Others take its segments" is_taken_over "$incarnation"
  note kill "from kill -9 until others send its work, s" "$(divide $(($(now) - killed)) 1000 1)"
  local segments listed
  # The claims are noted a moment later.
  sleep 1
  on 1 GET /v1/nodes >"$work/nodes.json"
  segments=$(of_node "$victim" items takenOver segments <"$work/nodes.json")
  listed=$(of_node "$victim" items takenOver possibleDuplicates <"$work/nodes.json")
  note kill "in flight at it" "$flight"
  note kill "segments taken over" "$segments"
  note kill "listed beyond 2 x in flight, of each segment" \
    "$(divide $((listed > 2 * flight ? listed - 2 * flight : 0)) "$segments" 0)"
  # The longest step that a segment is granted; see GrantMachine.
  ((listed <= 2 * flight + segments * 65536)) || die "$listed are listed for $flight in flight. See $work."
  finish_round kill 1
}
# of_node NUMBER LIST KEY… : what an answer says of a service.
of_node() {
  python3 -c '
import json, sys
value = next(node for node in json.load(sys.stdin)[sys.argv[2]] if node["name"] == "n" + sys.argv[1])
for key in sys.argv[3:]:
    value = value[key]
print(value)' "$@"
}
is_taken_over() { [[ $(query "SELECT count(*) FROM segments WHERE owner = $1 AND NOT is_settled") == 0 ]]; }

measure_return() {
  heading "$count devices, three services, and one of them is killed and starts again at once"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / 20))
  until_true 120 "The campaign sends" arrived_are $((count / 4))
  stop_node KILL 2
  start_node 2
  finish_round return 1
}

measure_cut() {
  heading "$count devices, three services, and one of them cannot reach the database for $seconds s"
  begin "$count" 2 "" --latency 20ms
  python3 ops/lib/forwarder.py "$port" >"$work/forwarder" 2>"$work/forwarder.log" &
  forwarder=$!
  until_true 10 "The forwarder listens" test -s "$work/forwarder"
  configure_node 3 "" "\"127.0.0.1:$(<"$work/forwarder")\""
  start_node 3
  start_campaign $((count / (20 + seconds)))
  until_true 120 "The campaign sends" arrived_are $((count / 10))
  kill -STOP "$forwarder"
  sleep "$seconds"
  kill -CONT "$forwarder"
  # Others have its place: it ends.
  until_true 60 "The service that was cut off ends" has_exited "${nodes[3]}"
  nodes[3]=
  finish_round cut 1
  stop KILL "$forwarder"
  forwarder=
}
has_exited() { ! kill -0 "$1" 2>/dev/null; }

measure_freeze() {
  heading "$count devices, three services, and one of them is stopped for $seconds s"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / (20 + seconds)))
  until_true 120 "The campaign sends" arrived_are $((count / 10))
  local woken
  kill -STOP "${nodes[2]}"
  sleep "$seconds"
  woken=$(monotonic)
  kill -CONT "${nodes[2]}"
  finish_round freeze 1
  note freeze "sent by it after waking, of what others have sent" \
    "$(python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" --copies-after "$woken" | cut -d = -f 2)"
}

measure_roll() {
  heading "$count devices, three services, and each ends and starts again in the middle"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / 50))
  local number before after
  until_true 120 "All of them send" arrived_are $((count / 4))
  before=$(monotonic)
  for number in 1 2 3; do
    stop_node TERM "$number"
    start_node "$number"
    # As the `minReadySeconds` of the Kubernetes manifest: it has its part of the work again.
    sleep 8
  done
  after=$(monotonic)
  finish_round roll 1
  note roll "least in a second meanwhile, of its median" \
    "$(python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" --least "$before" "$after" | cut -d = -f 2)"
  [[ $(awk '$1 == "roll" && /possible duplicates/ { last = $NF } END { print last }' "$work/figures") == 0 ]] ||
    die "A restart in good order has left possible duplicates. See $work."
}

measure_upgrade() {
  heading "$count devices, three services of another version, and each is replaced in the middle"
  local newer=$carillon number
  carillon=$before
  begin "$count" 3 "" --latency 20ms
  carillon=$newer
  start_campaign $((count / 30))
  until_true 120 "The campaign sends" arrived_are $((count / 10))
  for number in 1 2 3; do
    stop_node TERM "$number"
    start_node "$number"
  done
  finish_round upgrade 1
  [[ $(awk '$1 == "upgrade" && /possible duplicates/ { last = $NF } END { print last }' "$work/figures") == 0 ]] ||
    die "A replacement in good order has left possible duplicates. See $work."
}

measure_pause() {
  heading "$count devices, three services, and the campaign is paused through one of them"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / 20))
  until_true 120 "The campaign sends" arrived_are $((count / 4))
  local asked
  asked=$(monotonic)
  on 3 POST "$path:pause" >/dev/null
  sleep 4
  note pause "from the request until the last one arrives, ms" \
    "$(python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" --last-before "$asked" 4000 | cut -d = -f 2)"
  on 2 POST "$path:resume" >/dev/null
  finish_round pause 1
}

measure_rate() {
  # The nodes and the gateway share this machine, which must not be what limits them.
  local count=$((count < 400000 ? count : 400000))
  local limit=$((count / 40))
  heading "$count devices at $limit/s, while services are killed, leave and come"
  begin "$count" 3 "  rate-limit: $limit/s\n" --latency 20ms
  # The simulator notes when it reads. Where it waits for a processor, what is late arrives at once.
  chrt --all-tasks --rr --pid 1 "$simulator" 2>>"$work/simulator.log" ||
    say "The simulator cannot run before the services: it may note more in a second than they sent."
  start_campaign
  until_true 120 "The campaign sends" arrived_are $((count / 10))
  stop_node KILL 2
  sleep 5
  stop_node TERM 3
  start_node 3
  sleep 3
  start_node 2
  finish_round rate 1
  local most
  most=$(python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" --most | cut -d = -f 2)
  note rate "most in any second, of the limit" "$(divide "$most" "$limit" 3)"
}

measure_scale() {
  local services one=
  for services in 1 2 3; do
    heading "$count devices, $services service(s), each with one connection to a gateway 50 ms away"
    begin "$count" "$services" "  connections: { min: 1, max: 1 }\n" --latency 50ms --rules "$(streams_rule)"
    start_campaign
    finish_round "scale$services" 1
    local rate
    rate=$(python3 ops/lib/cluster_record.py "$work/record.jsonl" "$work/devices.csv" --rate | cut -d = -f 2)
    note scale "notifications/s of $services service(s)" "$rate"
    one=${one:-$rate}
    note scale "$services service(s) against one" "$(divide "$rate" "$one" 2)"
  done
}
# So many requests at a time on a connection that 50 ms make 8,000 a second.
streams_rule() {
  echo 'http2: { limits: [ { after: 0, to: 400 } ] }' >"$work/rules.yaml"
  printf '%s' "$work/rules.yaml"
}

measure_idle() {
  heading "Three services that do nothing"
  begin 1000 3
  sleep 5
  local before after
  before=$(statements)
  sleep 20
  after=$(statements)
  note idle "statements a second of each service" "$(divide $((after - before)) 60 1)"
  local node
  for node in "${!nodes[@]}"; do stop_node TERM "$node"; done
  stop TERM "$simulator"
  simulator=
  end_databases
  database=
}
# Transactions are what the server counts: a service runs one statement or one pipeline in each.
statements() { query "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'carillon'"; }

# What a campaign costs the database: processor time, transactions and log, for some services and
# rates. From these the guide Measurements has what larger deployments would cost.
measure_load() {
  local services rate count load
  for services in 1 3; do
    for rate in 10000 60000; do
      count=$((rate * 40))
      heading "$services service(s), $rate/s for 20 s: what the database does"
      begin "$count" "$services" "" --latency 20ms
      start_campaign "$rate"
      until_true 120 "The campaign sends" arrived_are $((rate * 4))
      read -ra load <<<"$(
        python3 ops/lib/cluster_load.py "$(head -n 1 "$database/primary/postmaster.pid")" 20 "$work/record.jsonl" \
          psql --host="$database" --port="$port" --username=carillon --no-psqlrc --quiet --tuples-only --no-align \
          --dbname=carillon
      )"
      note load "$services service(s), $rate/s: processor, ms a second" "${load[0]}"
      note load "$services service(s), $rate/s: transactions a second" "${load[1]}"
      note load "$services service(s), $rate/s: log, kB a second" "${load[2]}"
      note load "$services service(s), $rate/s: arrived a second" "${load[3]}"
      finish_round "load$services-$rate" 1
    done
  done
}

measure_failover() { measure_outage failover "killed, and the standby promoted"; }
measure_split() { measure_outage split "stopped, the standby promoted, and the old one continues for 10 s"; }
measure_away() { measure_outage away "stopped for $seconds s"; }
measure_standby() { measure_outage standby "alone: its standby is stopped for $seconds s"; }
# A client registers devices all the time, and each of them again until it is acknowledged.
measure_outage() {
  local kind=$1 lost absence acknowledged gap registered
  heading "$count devices, three services, and the primary is $2"
  begin "$count" 3 "" --latency 20ms
  start_campaign $((count / 20))
  python3 ops/lib/acknowledgements.py "${apis[1]##*:}" "$key" news >"$work/acknowledgements" \
    2>"$work/acknowledgements.log" &
  registrations=$!
  until_true 120 "The campaign sends" arrived_are $((count / 4))
  mapfile -t pids < <(processes primary)
  lost=$(now)
  case $kind in
  standby)
    mapfile -t pids < <(processes standby)
    kill -STOP "${pids[@]}"
    sleep "$seconds"
    kill -CONT "${pids[@]}"
    absence=$(($(now) - lost))
    ;;
  away)
    psql --host="$database" --port="$port" --username=carillon --no-psqlrc --quiet --dbname=carillon \
      --command='BEGIN ISOLATION LEVEL REPEATABLE READ' --command='SELECT count(*) FROM devices' \
      --command="SELECT pg_sleep(600)" >"$work/holder.log" 2>&1 &
    holder=$!
    sleep 1
    mapfile -t pids < <(processes primary)
    lost=$(now)
    kill -STOP "${pids[@]}"
    sleep "$seconds"
    kill -CONT "${pids[@]}"
    absence=$(($(now) - lost))
    ;;
  failover)
    # All of its processes, as if the machine had lost its power.
    end_primary
    promote
    absence=$(($(now) - lost))
    ;;
  split)
    kill -STOP "${pids[@]}"
    promote
    absence=$(($(now) - lost))
    sleep 20
    # Whoever manages the database ends it some time later.
    kill -CONT "${pids[@]}"
    sleep 10
    end_primary
    ;;
  esac
  until_true 300 "The campaign ends" has_ended 2
  stop TERM "$registrations"
  registrations=
  stop KILL "$holder"
  holder=
  read -r acknowledged gap <"$work/acknowledgements" || die "$(cat "$work/acknowledgements.log")"
  registered=$(($(query 'SELECT count(*) FROM devices') - count))
  finish_round "$kind" 2
  note "$kind" "until the database was there again, ms" "$absence"
  note "$kind" "longest time without an acknowledged write, ms" "$gap"
  say "$acknowledged devices registered meanwhile, $registered in the database. Absence $absence ms; longest time" \
    "without an acknowledged write $gap ms."
  ((registered == acknowledged)) || die "Devices were lost, or counted twice. See $work."
  # Whoever waits for a stopped machine waits until its patience ends.
  [[ $kind == split ]] || ((gap <= absence + 1500)) || die "The gap is longer than the absence and 1.5 s."
}
promote() {
  as_user "$tools/pg_ctl" --pgdata="$database/standby" --wait promote >>"$work/database.log" 2>&1
  present=$((port + 1))
}
end_primary() {
  mapfile -t pids < <(processes primary)
  kill -KILL "${pids[@]}" 2>/dev/null || true # a session may have ended by itself
  rm -f "$database/primary/postmaster.pid"
}
