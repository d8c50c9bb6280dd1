# The measurements of ops/serve-bench with more than one app. Source it after serve-bench.sh; it
# runs nothing by itself.

# in_background COMMAND… : leaves its process in $background.
in_background() {
  rm -f "$work/background.out"
  "$@" >"$work/background.out" 2>"$work/background.out.log" &
  background=$!
}

# Two campaigns of the same audience: how much of each is accepted within ten seconds. Weights count
# where the sender is the slower side, so it has one processor, which other processes use as well,
# and the gateway has another. Each app has so many connections on each event loop that one of them
# always has something to send: with a single one, it is the waiting for answers that decides.
measure_weights() {
  local run busy
  make_tokens 3000000 >"$work/tokens"
  printf '{"name":"sale","payload":%s}' "$payload" >"$work/campaign.json"
  for ((run = 1; run <= runs; run++)); do
    start_simulator
    configure interval < <(
      app one "$http2_port" '  transport: http2\n  weight: 1\n  connections: { min: 8, max: 8 }\n'
      app three "$http2_port" '  transport: http2\n  weight: 3\n  connections: { min: 8, max: 8 }\n'
    )
    start_service
    taskset --all-tasks --cpu-list --pid 1 "$simulator" >/dev/null
    taskset --all-tasks --cpu-list --pid 0 "$service" >/dev/null
    timeout 90 taskset --cpu-list 0 sh -c \
      'for i in 1 2 3 4 5 6 7 8; do timeout --foreground 90 sh -c "while :; do :; done" & done; wait' &
    busy=$!
    taskset --cpu-list 1 python3 ops/lib/shares.py "${api##*:}" "$key" 10 "$work/campaign.json" "$work/tokens" \
      one three >"$work/shares" 2>"$work/shares.log" || die "The campaigns: $(cat "$work/shares.log")"
    stop TERM "$busy"
    stop_all
    read -r one three <"$work/shares"
    figure weights one "$one"
    figure weights three "$three"
    figure weights share "$(divide "$three" "$one" 3)"
  done
  say "two apps over HTTP/2, 8 connections each, for 10 s, $runs run(s)"
  summary weights one "weight 1: notifications accepted" 0
  summary weights three "weight 3: notifications accepted" 0
  summary weights share "their ratio" 2
}

# Two campaigns of 1,000,000 stored devices, of which one tag picks one in twenty and another one
# nine in ten. They are imported once, and then once more: each is there already.
measure_campaign() {
  local run started devices=1000000
  rm -rf "$work/devices"
  mkdir -p "$work/devices"
  { printf 'token,tags\n'; make_tokens "$devices" | awk '{ print $0 "," (NR % 20 ? NR % 10 ? "news all" : "all" : "few all") }'; } \
    >"$work/devices.csv"
  local tag
  for tag in few news; do
    printf '{"name":"sale","payload":%s,"audience":{"source":"devices","filter":{"all":["%s"]}}}' \
      "$payload" "$tag" >"$work/$tag.json"
  done
  start_simulator
  configure interval < <(app load "$http2_port" && app other "$http2_port")
  start_service
  in_background python3 ops/lib/registrations.py "${api##*:}" "$key" other
  local kind
  for kind in import again; do
    started=${EPOCHREALTIME/./}
    curl --silent --show-error --fail-with-body --header "Authorization: Bearer $key" \
      --header 'Content-Type: text/csv' --upload-file "$work/devices.csv" --request POST \
      "$api/v1/apps/load/devices:import" >"$work/import" || die "The import: $(cat "$work/import")"
    figure campaign "$kind" "$(divide "$devices" "$(divide $((${EPOCHREALTIME/./} - started)) 1000000 3)" 0)"
  done
  stop TERM "$background"
  background=
  [[ -s $work/background.out ]] || die "The registrations: $(cat "$work/background.out.log")"
  read -r registered50 registered99 registered100 <"$work/background.out"
  figure campaign registered50 "$registered50"
  figure campaign registered99 "$registered99"
  figure campaign registered100 "$registered100"
  stop TERM "$service"
  service=
  stop TERM "$simulator"
  simulator=
  if [[ -n $postgres ]]; then
    sql "$database_port" 'VACUUM ANALYZE' carillon
    sql "$database_port" 'CREATE DATABASE devices TEMPLATE carillon'
  else
    cp "$work"/store.db* "$work/devices"
  fi
  local same=$key
  for ((run = 1; run <= runs; run++)); do
    start_simulator
    configure interval < <(app load "$http2_port")
    if [[ -n $postgres ]]; then
      sql "$database_port" 'DROP DATABASE carillon'
      sql "$database_port" 'CREATE DATABASE carillon TEMPLATE devices'
    else
      rm -f "$work"/store.db*
      cp "$work"/devices/store.db* "$work"
    fi
    key=$same
    start_service
    for tag in few news; do
      python3 ops/lib/campaign.py "${api##*:}" "$key" load "$work/$tag.json" >"$work/campaign" ||
        die "The campaign: $(cat "$work/campaign")"
      read -r first total accepted <"$work/campaign"
      figure campaign "first-$tag" "$first"
      [[ $tag == news ]] && break
      [[ $accepted == $((devices / 20)) ]] || die "$accepted were accepted, not $((devices / 20))."
    done
    [[ $accepted == $((devices * 9 / 10)) ]] || die "$accepted were accepted, not $((devices * 9 / 10))."
    figure campaign rate "$(divide "$accepted" "$total" 0)"
    figure campaign peak "$(peak_megabytes "$service")"
    stop_all
  done
  say "50,000 and 900,000 of 1,000,000 stored devices, sync: interval, HTTP/2, $runs run(s)"
  summary campaign import "import of the devices, lines/s" 0
  summary campaign again "the same once more, lines/s" 0
  summary campaign registered50 "a registration meanwhile, median, ms" 1
  summary campaign registered99 "a registration meanwhile, 99th percentile, ms" 1
  summary campaign registered100 "a registration meanwhile, longest, ms" 1
  summary campaign first-few "50,000: from the start to the first outcome, s" 2
  summary campaign first-news "900,000: from the start to the first outcome, s" 2
  summary campaign rate "until all have their outcome, notifications/s" 0
  summary campaign peak "largest memory of the service, MB" 1
}

# A small app's notifications, one after the other, alone and beside others.
measure_tenants() {
  local run beside closed gateway
  rm -rf "$work/strangers"
  "$carillon" simulate --make-certificates "$work/strangers" --app "$topic" >"$work/certificates.log"
  make_batch 1 "$work/single"
  make_tokens 5000000 >"$work/tokens"
  printf '{"name":"sale","payload":%s}' "$payload" >"$work/campaign.json"
  for ((run = 1; run <= runs; run++)); do
    for beside in nobody campaign trouble; do
      start_simulator
      # Nothing listens there.
      closed=1
      gateway=$(free_port)
      {
        # Its gateway is the client that measures.
        app small "$gateway" "  connections: { min: 1, max: 1 }\n"
        app big "$http2_port"
        app dead "$closed"
        # It shows a certificate of an authority that the simulator does not know.
        app refused "$http2_port" | sed "s|certificates/$topic|strangers/$topic|g"
      } >"$work/apps.yaml"
      configure interval <"$work/apps.yaml"
      start_service
      if [[ $beside == trouble ]]; then
        for app in dead refused; do
          for ((i = 0; i < 20; i++)); do
            curl --silent --max-time 1 --output /dev/null --header "Authorization: Bearer $key" \
              --data-binary "@$work/single" "$api/v1/apps/$app/notifications" &
          done
        done
      fi
      if [[ $beside != nobody ]]; then
        in_background python3 ops/lib/campaign.py "${api##*:}" "$key" big "$work/campaign.json" "$work/tokens"
        # It has begun when its first outcome is known.
        wait_for "$work/background.out" "$background" "The campaign"
      fi
      ask_small 200
      if [[ $beside != nobody ]]; then
        [[ -d /proc/$background ]] || die "The campaign ended before the measurement: $(cat "$work/background.out")"
      fi
      for column in 1 2; do
        figure tenants "$beside-p50-$column" "$(percentile_of "$column" 50)"
        figure tenants "$beside-p99-$column" "$(percentile_of "$column" 99)"
      done
      stop TERM "$background"
      background=
      wait_for_children
      stop_all
    done
  done
  say "200 notifications of a small app, one after the other, sync: interval, $runs run(s);" \
    "campaign: of 5,000,000 at full speed; trouble: that, a dead gateway and a refused certificate"
  for beside in nobody campaign trouble; do
    summary tenants "$beside-p50-1" "beside $beside: until the answer, median, ms" 1
    summary tenants "$beside-p99-1" "beside $beside: until the answer, 99th percentile, ms" 1
    summary tenants "$beside-p50-2" "beside $beside: until the socket, median, ms" 1
    summary tenants "$beside-p99-2" "beside $beside: until the socket, 99th percentile, ms" 1
  done
}

# A small app's notifications, one after the other, beside four uploads of 15 MB at a time that are
# of another key and another app: batches of valid lines, batches of rejected ones, and devices.
measure_neighbours() {
  local run beside gateway bulk path file
  make_personal_batch 80000 "$work/valid"
  make_tokens 80000 | sed "s|.*|{\"token\":\"&zz\",\"payload\":$payload}|" >"$work/rejected"
  make_tokens 130000 | sed 's|.*|{"token":"&","language":"de","tags":["a","b"]}|' >"$work/imports"
  for ((run = 1; run <= runs; run++)); do
    for beside in nobody valid rejected imports; do
      start_simulator
      # Its gateway is the client that measures.
      gateway=$(free_port)
      {
        app small "$gateway" "  connections: { min: 1, max: 1 }\n"
        app big "$http2_port"
      } >"$work/apps.yaml"
      configure interval <"$work/apps.yaml"
      bulk=$("$carillon" key create --config "$work/carillon.yaml" --name bulk --app big --scope send \
        --scope devices | tail -n 1)
      start_service
      file=$work/$beside
      path=/v1/apps/big/notifications:batch
      [[ $beside != imports ]] || path=/v1/apps/big/devices:import
      if [[ $beside != nobody ]]; then
        in_background python3 ops/lib/uploads.py "${api##*:}" "$bulk" "$path" "$file" 4
        wait_for "$work/background.out" "$background" "The uploads"
      fi
      ask_small 500
      figure neighbours "$beside-p50" "$(percentile_of 1 50)"
      figure neighbours "$beside-p99" "$(percentile_of 1 99)"
      if [[ $beside != nobody ]]; then
        [[ -d /proc/$background ]] || die "The uploads ended early: $(cat "$work/background.out.log")"
        stop TERM "$background"
        say "beside $beside, answers by status: $(tail -n 1 "$work/background.out")"
      fi
      background=
      stop_all
    done
  done
  say "500 notifications of a small app, one after the other, sync: interval, $runs run(s)"
  for beside in nobody valid rejected imports; do
    summary neighbours "$beside-p50" "beside $beside: until the answer, median, ms" 1
    summary neighbours "$beside-p99" "beside $beside: until the answer, 99th percentile, ms" 1
  done
}

# ask_small COUNT [http2]
ask_small() {
  python3 ops/lib/latency.py "${api##*:}" "$key" small "$1" "$gateway" "$work/certificates/server.pem" \
    "$work/certificates/server.key" ${2:+"$2"} >"$work/latency" 2>"$work/latency.log" ||
    die "The small app: $(cat "$work/latency.log")"
}
free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# percentile_of COLUMN P
percentile_of() {
  awk -v column="$1" '{ print $column }' "$work/latency" | sort -g |
    awk -v p="$2" '{ v[NR] = $1 } END { i = int(NR * p / 100 + 0.999999); print v[i < 1 ? 1 : i] }'
}
# The clients of measure_tenants, which end by themselves.
wait_for_children() {
  local child
  for child in $(jobs -p); do
    [[ $child == "$simulator" || $child == "$service" ]] || wait "$child" 2>/dev/null || true
  done
}

# Nothing else runs: what a notification takes by itself.
measure_roundtrip() {
  local run sync
  for ((run = 1; run <= runs; run++)); do
    for sync in always interval; do
      gateway=$(free_port)
      app small "$gateway" "  transport: http2\n  connections: { min: 1, max: 1 }\n" >"$work/apps.yaml"
      configure "$sync" <"$work/apps.yaml"
      start_service
      ask_small 1000 http2
      local column=1 name
      for name in acknowledged arrived told; do
        figure roundtrip "$sync-$name-p50" "$(percentile_of "$column" 50)"
        figure roundtrip "$sync-$name-p99" "$(percentile_of "$column" 99)"
        column=$((column + 1))
      done
      stop_all
    done
  done
  say "1,000 single notifications, one after the other, over HTTP/2, $runs run(s)"
  for sync in always interval; do
    summary roundtrip "$sync-acknowledged-p50" "sync: $sync: until the 202, median, ms" 2
    summary roundtrip "$sync-acknowledged-p99" "sync: $sync: until the 202, 99th percentile, ms" 2
    summary roundtrip "$sync-arrived-p50" "sync: $sync: until the gateway has it, median, ms" 2
    summary roundtrip "$sync-arrived-p99" "sync: $sync: until the gateway has it, 99th percentile, ms" 2
    summary roundtrip "$sync-told-p50" "sync: $sync: until its answer is an outcome, median, ms" 2
    summary roundtrip "$sync-told-p99" "sync: $sync: until its answer is an outcome, 99th percentile, ms" 2
  done
}

# apps COUNT : app1, app2 and so on, each with a certificate of its own.
apps() {
  local number
  for ((number = 1; number <= $1; number++)); do
    app "app$number" "$http2_port" '  transport: http2\n' "com.example.app$number"
  done
}

# Once after the start, and once when each app has sent and has a connection.
measure_idle() {
  local run state
  make_credentials 100
  make_batch 1 "$work/batch"
  for ((run = 1; run <= runs; run++)); do
    start_simulator
    configure interval < <(apps 100)
    start_service
    acknowledged=0
    for state in started connected; do
      if [[ $state == connected ]]; then
        batches 100
        acknowledged=100
        wait_for_outcomes
      fi
      # What came before is done.
      sleep 3
      usage_while_idle "$state"
    done
    finish
  done
  say "100 apps with a certificate each that send nothing for 20 s, $runs run(s)"
  for state in started connected; do
    summary idle "$state-cpu" "$state: processor time, percent of one core" 2
    summary idle "$state-memory" "$state: resident memory, MB" 1
  done
}
usage_while_idle() {
  local before
  before=$(ticks "$service")
  sleep 20
  figure idle "$1-cpu" "$(divide $(($(ticks "$service") - before)) $((20 * $(getconf CLK_TCK) / 100)) 2)"
  figure idle "$1-memory" "$(resident_megabytes "$service")"
}

# batches COUNT : posts the batch to app1, app2 and so on, 32 at a time.
batches() {
  local number
  for ((number = 1; number <= $1; number++)); do
    printf 'url = "%s/v1/apps/app%d/notifications:batch"\noutput = /dev/null\ndata-binary = "@%s"\n' \
      "$api" "$number" "$work/batch"
    printf 'header = "Authorization: Bearer %s"\nfail\nsilent\nnext\n' "$key"
  done | sed '$d' >"$work/requests"
  curl --parallel --parallel-max 32 --config "$work/requests" >"$work/curl.log" 2>&1 ||
    die "Not every app has taken its batch: $(tail -n 5 "$work/curl.log")"
}
# since MICROSECONDS : seconds.
since() { divide $((${EPOCHREALTIME/./} - $1)) 1000000 2; }

measure_many() {
  local run started
  make_credentials 1000
  make_batch 100 "$work/batch"
  for ((run = 1; run <= runs; run++)); do
    start_simulator
    configure interval < <(apps 1000)
    started=${EPOCHREALTIME/./}
    start_service
    figure many start "$(since "$started")"
    started=${EPOCHREALTIME/./}
    batches 1000
    figure many taken "$(since "$started")"
    acknowledged=100000
    wait_for_outcomes
    figure many sent "$(since "$started")"
    figure many memory "$(peak_megabytes "$service")"
    measure_reload same "$work/carillon.yaml"
    cp "$work/carillon.yaml" "$work/all.yaml"
    # The first half of the apps.
    awk '/^- id: app501$/ { exit } { print }' "$work/all.yaml" >"$work/half.yaml"
    measure_reload removed "$work/half.yaml"
    measure_reload added "$work/all.yaml"
    started=${EPOCHREALTIME/./}
    finish
    figure many stop "$(since "$started")"
  done
  say "1,000 apps with a certificate each, 100 notifications each, $runs run(s); every sum agrees"
  summary many start "until the service is ready, s" 2
  summary many taken "until all is taken in, s" 2
  summary many sent "until every outcome is in the store, s" 2
  summary many memory "largest memory, MB" 1
  summary many same "reload without a change, s" 2
  summary many removed "reload that removes 500 apps, s" 2
  summary many added "reload that adds them again, s" 2
  summary many stop "from SIGTERM to the end of service and simulator, s" 2
}
# measure_reload NAME FILE : the file as the new configuration.
measure_reload() {
  local started
  [[ $2 == "$work/carillon.yaml" ]] || cp "$2" "$work/carillon.yaml"
  started=${EPOCHREALTIME/./}
  ask POST /v1/reload >"$work/reload" || die "The reload: $(cat "$work/reload")"
  figure many "$1" "$(since "$started")"
}

# Constant load of batches and single requests. Memory and descriptors are noted all the time: the
# last quarter may not have more than the second one.
measure_soak() {
  local end count=0 before
  make_batch 1000 "$work/batch"
  make_batch 1 "$work/single"
  start_simulator
  configure interval < <(app load "$http2_port")
  start_service
  : >"$work/soak"
  acknowledged=0
  before=$(ticks "$service")
  end=$((SECONDS + length))
  while ((SECONDS < end)); do
    load_batches 4 40 /v1/apps/load/notifications:batch "$work/batch"
    load 16 400 /v1/apps/load/notifications "$work/single"
    acknowledged=$((acknowledged + 40000 + 400))
    count=$((count + 1))
    printf '%d %s %s\n' "$count" "$(resident_megabytes "$service")" "$(descriptors "$service")" >>"$work/soak"
  done
  wait_for_outcomes
  figure soak notifications "$acknowledged"
  figure soak cpu "$(microseconds $(($(ticks "$service") - before)) "$acknowledged")"
  finish
  awk -v seconds="$length" '
    { memory[NR] = $2; files[NR] = $3 }
    function most(from, to, v,   i, m) { for (i = from; i <= to; i++) if (v[i] > m) m = v[i]; return m }
    END {
      q = int(NR / 4); early = most(q + 1, 2 * q, memory); late = most(3 * q + 1, NR, memory)
      earlyFiles = most(q + 1, 2 * q, files); lateFiles = most(3 * q + 1, NR, files)
      printf "memory in the second quarter %.1f MB, in the last %.1f MB; descriptors %d and %d; %d s\n",
        early, late, earlyFiles, lateFiles, seconds
      exit !(NR >= 8 && late <= early * 1.1 + 4 && lateFiles <= earlyFiles + 4) }' "$work/soak" ||
    die "Memory or descriptors grow, or there were too few rounds: $work/soak"
  summary soak notifications "notifications; every sum agrees" 0
  summary soak cpu "processor time of the service, µs a notification" 2
}
