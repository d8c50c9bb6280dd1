# The HTTP/2 part of ops/yardstick, which sources it: `h2load`, `carillon bench` and `carillon send`
# against the same nghttpd, or with --sink against http2sink, which costs so little that the clients
# set the bound.

usage() {
  die "$1 Usage: ops/yardstick --http2 [--pairs N] [--requests N] [--payload BYTES] [--connections N]" \
    "[--streams N] [--token-key] [--sink] [--relay MILLISECONDS] [--personal] [--journal]" \
    "[--carillon FILE]"
}

pairs=5
requests=400000
payload=200
connections=4
streams=100
token_key=false
neutral=false
personal=false
journal=false
relay=
carillon=
while (($# > 0)); do
  case $1 in
    --token-key) token_key=true && shift && continue ;;
    --sink) neutral=true && shift && continue ;;
    --personal) personal=true && shift && continue ;;
    --journal) journal=true && shift && continue ;;
  esac
  (($# >= 2)) || usage "$1 needs a value."
  case $1 in
    --pairs) pairs=$2 ;;
    --requests) requests=$2 ;;
    --payload) payload=$2 ;;
    --connections) connections=$2 ;;
    --streams) streams=$2 ;;
    --relay) relay=$2 ;;
    --carillon) carillon=$(cd "$invoked_from" && realpath "$2") ;;
    *) usage "Unknown option \"$1\"." ;;
  esac
  shift 2
done
within --pairs "$pairs" 1 100
within --requests "$requests" 2000 100000000
within --payload "$payload" 21 4096
within --connections "$connections" 1 64
within --streams "$streams" 1 1000
[[ -z $relay ]] || within --relay "$relay" 1 1000

# No run takes longer, whatever hangs.
run_limit=$((60 + requests / 5000))
work=$repository/.build/yardstick-http2
mkdir -p "$work"

server=
line=
stop_server() {
  local process
  for process in $line $server; do
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  line= server=
}
trap stop_server EXIT

serve_nghttpd() {
  exec nghttpd --address=127.0.0.1 "$@" "$port" "$work/certificates/server.key" "$work/certificates/server.pem"
}
serve_relay() { exec "$work/relay" "$port" "$far_port" "$relay"; }
serve_sink() { exec "$work/http2sink" "$port" "$work/certificates/server.pem" "$work/certificates/server.key" "$streams"; }

# start_server COMMAND OPTION… : none of them says when it listens, so a connection is tried. If the
# port is taken the server ends, and another port is tried. start_relay puts a line in front of it.
start_server() { listen server "$@"; }
start_relay() {
  far_port=$port
  listen line serve_relay
}
listen() {
  local -n process=$1
  local attempt waited
  shift
  for ((attempt = 0; attempt < 20; attempt++)); do
    port=$((20000 + RANDOM % 10000))
    "$@" >"$work/$1.log" 2>&1 &
    process=$!
    for ((waited = 0; waited < 100; waited++)); do
      kill -0 "$process" 2>/dev/null || break
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
      sleep 0.05
    done
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  cat "$work/$1.log" >&2
  die "The server does not listen on any port."
}

topic=com.example.yardstick
as_client() {
  local credential=(--certificate "$work/certificates/$topic.pem" --key "$work/certificates/$topic.key")
  ! $token_key || credential=(--token-key "$work/AuthKey_YARDSTICK1.p8" --team-id YARDSTICK1 --topic "$topic")
  "$carillon" "$@" --json --transport http2 --gateway "127.0.0.1:$port" --trust "$work/certificates/ca.pem" \
    "${credential[@]}" --connections "$connections"
}
run_bench() { as_client bench --payload "$payload" --streams "$streams" --count "$1"; }
run_send() {
  local options=(--payload "$work/$template" --tokens "$work/$people" --expiration 0 --priority 10)
  rm -rf "$work/journal"
  ! $journal || options+=(--journal "$work/journal")
  as_client send "${options[@]}"
}
template=payload.json people=tokens.txt
! $personal || template=personal.json people=people.csv

heading "Building"
packages+=(nghttp2-client nghttp2-server)
! $neutral && [[ -z $relay ]] || packages+=(gcc libc6-dev)
install_packages
[[ -n $carillon ]] || build_carillon
compile_sink() { gcc -O2 -Wall -Wextra -o "$work/http2sink" Benchmarks/Yardstick/http2sink.c -lssl -lcrypto; }
compile_relay() { gcc -O2 -Wall -Wextra -o "$work/relay" Benchmarks/Yardstick/relay.c; }
if [[ -n $relay ]]; then step "compile relay.c" compile_relay || die "relay.c cannot be compiled: $(cat "$step_log")"; fi
if $neutral; then step "compile http2sink.c" compile_sink || die "http2sink.c cannot be compiled: $(cat "$step_log")"; fi

heading "Preparing"
rm -rf "$work/certificates" "$work/files"
mkdir -p "$work/files/3/device"
"$carillon" simulate --make-certificates "$work/certificates" --app "$topic" >"$work/certificates.log"
if $token_key; then
  (umask 077 && openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/AuthKey_YARDSTICK1.p8" 2>/dev/null)
fi
filler=$(head --bytes $((payload - 20)) /dev/zero | tr '\0' x)
printf '{"aps":{"alert":"%s"}}' "$filler" >"$work/payload.json"

# nghttpd answers 200 to a POST where it has a file of that name, and 404 elsewhere. `bench` sends
# to the same 1024 tokens again and again. A first server, which answers 200 to everything and is
# too slow to measure against, shows which tokens these are. All clients then use them.
start_server serve_nghttpd --echo-upload --verbose --max-concurrent-streams=1000
connections=1 run_bench 1024 >"$work/tokens.log" 2>&1 ||
  die "nghttpd has not accepted 1024 requests: $(cat "$work/tokens.log")"
stop_server
grep -aoE '/3/device/[0-9a-f]{64}' "$work/serve_nghttpd.log" | sort -u >"$work/paths.txt"
path_count=$(wc -l <"$work/paths.txt")
((path_count == 1024)) || die "\`carillon bench\` has sent to $path_count tokens instead of 1024."
(cd "$work/files" && sed 's|^/||' "$work/paths.txt" | xargs touch)
awk -v count="$requests" '
  { token[NR] = substr($0, 11) }
  END { for (i = 0; i < count; i++) print token[i % NR + 1] }' "$work/paths.txt" >"$work/tokens.txt"
if $personal; then
  # As many bytes as the others' payload, the name in it.
  printf '{"aps":{"alert":"%s {{name}}"}}' "${filler:12}" >"$work/personal.json"
  awk 'BEGIN { print "token,name" } { printf "%s,Person%05d\n", $1, NR % 100000 }' "$work/tokens.txt" >"$work/people.csv"
fi

if $neutral; then
  start_server serve_sink
else
  start_server serve_nghttpd --htdocs="$work/files" --max-concurrent-streams="$streams"
fi
[[ -z $relay ]] || start_relay
sed "s|^|https://127.0.0.1:$port|" "$work/paths.txt" >"$work/addresses.txt"
kind=certificate
! $token_key || kind="token key"
say "$requests requests of $payload bytes with a $kind, $connections connection(s) of at most $streams streams," \
  "$pairs pair(s)"
server_name=$($neutral && echo "http2sink" || nghttpd --version)
say "$server_name on the same machine, one thread${relay:+, $relay ms away}; $(nproc) cores; kernel $(uname -r)"
! $journal || say "\`carillon send\` has a journal, as when a kill must lose nothing."
! $personal || say "What \`carillon send\` sends is personal: each payload has a name from the file."

# Each measure leaves requests per second in $rate and microseconds of CPU per request in $micros.
# The headers are those that Carillon sends. Its apns-id differs each time, which h2load cannot do.
cpu_per_request() {
  micros=$(awk -v cpu="$cpu_seconds" -v count="$requests" 'BEGIN { printf "%.2f", cpu * 1e6 / count }')
}
# The CPU time of the server so far, in ticks. It shows whether the server was the limit.
server_ticks() { awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$server/stat"; }
# measure CONTESTANT : also leaves in $busy how busy the server's thread was, in percent.
measure() {
  local before
  before=$(server_ticks)
  "measure_$1"
  busy=$(awk -v ticks="$(($(server_ticks) - before))" -v hertz="$(getconf CLK_TCK)" \
    -v count="$requests" -v rate="$rate" 'BEGIN { printf "%.0f", 100 * ticks / hertz / count * rate }')
}
# With a token key, as many bytes as Carillon's token has, which h2load sends again and again too.
authorization=()
! $token_key || authorization=("--header=authorization: bearer $(head --bytes 140 /dev/urandom | base64 --wrap 0 | tr '+/' '-_')")
measure_h2load() {
  timed timeout "$run_limit" h2load --clients="$connections" --max-concurrent-streams="$streams" \
    --requests="$requests" --data="$work/payload.json" --header="apns-topic: $topic" \
    --header="apns-push-type: alert" --header="apns-priority: 10" --header="apns-expiration: 0" \
    --header="apns-id: 6a2c9d3e-51f4-4b07-9c8d-2f1e0a7b6c5d" "${authorization[@]}" --input-file="$work/addresses.txt"
  grep -q "status codes: $requests 2xx" <<<"$output" || die "h2load has not got $requests answers of 200: $output"
  rate=$(grep -oE '[0-9.]+ req/s' <<<"$output" | head -n 1 | cut -d ' ' -f 1)
  rate=${rate%.*}
  cpu_per_request
}
account_rate() {
  local accepted
  accepted=$(value confirmed "$output")
  ((accepted == requests)) || die "Only $accepted of $requests were accepted: $output"
  rate=$(divide "$requests" "$(value seconds "$output")" 0)
  cpu_per_request
}
# `timeout` runs programs, not functions.
export -f as_client run_bench run_send
export carillon port work topic connections payload streams token_key template people journal
limited() { timeout "$run_limit" bash -c "$1"; }
measure_bench() {
  timed limited "run_bench $requests"
  account_rate
}
measure_send() {
  timed limited run_send
  account_rate
}

heading "Requests per second, and microseconds of the client's CPU (user and system) per request"
: >"$work/results"
cell() { printf '%s/s %6s µs' "$(grouped "$1")" "$2"; }
row() { printf '%-7s %21s   %21s %6s %6s   %21s %6s %6s\n' "$@"; }
row pair h2load "carillon bench" rate CPU "carillon send" rate CPU
for ((pair = 1; pair <= pairs; pair++)); do
  measure h2load
  base_rate=$rate base_micros=$micros
  say "h2load $rate $micros 1 1 $busy" >>"$work/results"
  cells=("$(cell "$rate" "$micros")")
  for contestant in bench send; do
    measure "$contestant"
    rates=$(divide "$rate" "$base_rate" 2) costs=$(divide "$micros" "$base_micros" 2)
    say "$contestant $rate $micros $rates $costs $busy" >>"$work/results"
    cells+=("$(cell "$rate" "$micros")" "$rates" "$costs")
  done
  row "$pair" "${cells[@]}"
done
cells=("$(cell "$(median h2load 2 0)" "$(median h2load 3 2)")")
for contestant in bench send; do
  cells+=("$(cell "$(median "$contestant" 2 0)" "$(median "$contestant" 3 2)")")
  cells+=("$(median "$contestant" 4 2)" "$(median "$contestant" 5 2)")
done
row median "${cells[@]}"
say
say "The server's thread was busy $(median h2load 6 0) % of the time with h2load," \
  "$(median bench 6 0) % with bench, $(median send 6 0) % with send (medians)."
if $neutral; then
  stop_server
  counted=$(value requests "$(<"$work/serve_sink.log")")
  ((counted == 3 * pairs * requests)) || die "The receiver has counted $counted requests, not $((3 * pairs * requests))."
  say "The receiver has counted as many requests as were sent."
fi
say "To be reached: at least 0.6 of h2load's requests per second, for at most 2.5 times its CPU per request."
