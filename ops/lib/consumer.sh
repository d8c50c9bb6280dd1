# Builds the package Tests/Consumer, which depends on Carillon by path, and lets it send to a
# simulator. Sourced by ops/test; the command `carillon` has been built.

# Nobody debugs it, so nothing is made for that.
consumer_build() {
  swift build --package-path Tests/Consumer --scratch-path .build/consumer --disable-index-store "${whole_modules[@]}"
}

consumer_run() {
  local folder pid port= tries=0
  folder=$(mktemp -d)
  .build/debug/carillon simulate --make-certificates "$folder" --app com.example.news
  .build/debug/carillon simulate --certificate "$folder/server.pem" --key "$folder/server.key" \
    --gateway-port 0 --feedback-port 0 --http2-port 0 >"$folder/simulator.txt" &
  pid=$!
  while [[ -z $port ]]; do
    port=$(sed -n 's/.*HTTP\/2 on port \([0-9]*\).*/\1/p' "$folder/simulator.txt")
    ((++tries <= 100)) || break
    [[ -n $port ]] || sleep 0.1
  done
  local status=0
  .build/consumer/debug/Consumer "${port:-0}" "$folder" | tee "$folder/consumer.txt" || status=1
  kill "$pid"
  wait "$pid" || true
  cat "$folder/simulator.txt"
  grep -q '^a campaign: 1000 of 1000 accepted$' "$folder/consumer.txt" || status=1
  grep -q 'HTTP/2: 1001 accepted, 0 refused' "$folder/simulator.txt" || status=1
  rm -rf "$folder"
  return $status
}
