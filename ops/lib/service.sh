# Checks the files of ops/service, and compares a running service with openapi.yaml. Sourced by
# ops/test; the command `carillon` has been built.

# Leaves the path of promtool in $promtool. Debian has it in the package of Prometheus, which would
# start a server when it is installed: so it is only unpacked.
find_promtool() {
  promtool=$(command -v promtool) && return
  local tools=$scratch/prometheus
  promtool=$tools/usr/bin/promtool
  [[ ! -x $promtool ]] || return 0
  mkdir -p "$tools"
  (cd "$tools" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb)
}

# The manifest against the schemas of Kubernetes, in a virtual environment of its own, and its
# configuration against the service: what is missing are files of its volumes and the database.
kubernetes_manifest() {
  local tools=$scratch/kubernetes folder output
  if [[ ! -x $tools/bin/kubernetes-validate ]]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet kubernetes-validate==1.37.0
  fi
  "$tools/bin/kubernetes-validate" --strict ops/service/kubernetes.yaml || return 1
  folder=$(mktemp -d)
  python3 ops/lib/kubernetes.py ops/service/kubernetes.yaml >"$folder/carillon.yaml" || return 1
  output=$(.build/debug/carillon serve --config "$folder/carillon.yaml" --check 2>&1) || true
  rm -rf "$folder"
  if ! grep -q 'AuthKey_ABC123DEFG.p8' <<<"$output" || grep -q 'carillon.yaml:[0-9]' <<<"$output"; then
    echo "error: the configuration in ops/service/kubernetes.yaml: $output"
    return 1
  fi
}

service_files() {
  local unit folder exposure promtool
  python3 -m json.tool ops/service/grafana.json >/dev/null || return 1
  python3 ops/lib/compose.py ops/service/compose.yaml || return 1
  kubernetes_manifest || return 1
  folder=$(mktemp -d)
  # The unit names where the program is installed; here it is built.
  sed "s|/usr/local/bin/carillon|$PWD/.build/debug/carillon|" ops/service/carillon.service >"$folder/carillon.service"
  unit=$(systemd-analyze verify "$folder/carillon.service" 2>&1) && [[ -z $unit ]] || { echo "error: $unit"; return 1; }
  exposure=$(systemd-analyze security --offline=true "$folder/carillon.service" | tail -n 1)
  echo "$exposure"
  rm -rf "$folder"
  [[ $exposure == *' OK '* ]] || return 1
  find_promtool || { echo "error: promtool is not here, and its package cannot be had"; return 1; }
  (cd ops/service && "$promtool" check config prometheus.yml && "$promtool" check rules alerts.yml &&
    "$promtool" test rules alerts-test.yml)
}

# Requests by schemathesis, in a virtual environment of its own; without the event streams, which do
# not end. At most two minutes. The title of the step has the seed, and CARILLON_OPENAPI_SEED
# repeats it.
openapi_seed=${CARILLON_OPENAPI_SEED:-$RANDOM}
openapi_compare() {
  local tools=$scratch/schemathesis folder port status=0 campaign batch notification
  if [[ ! -x $tools/bin/st ]]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet schemathesis==4.32.5
  fi
  begin_trial
  cp Sources/PushServer/OpenAPI/openapi.yaml "$folder"
  # What lies below an identifier is reached only with one that exists.
  campaign=$(openapi_post campaigns '{"name":"sale","payload":{"aps":{"alert":"Hello"}}}')
  notification=$(openapi_post notifications "{\"token\":\"$openapi_token\",\"payload\":{\"aps\":{\"alert\":\"Hello\"}}}")
  batch=$(openapi_post notifications:batch "[{\"token\":\"$openapi_token\",\"payload\":{\"aps\":{\"alert\":\"Hello\"}}}]")
  [[ -n $campaign && -n $notification && -n $batch ]] || { echo "error: nothing to compare with"; status=1; }
  # The app of the trial, where an address needs one; now and then any other.
  cat >"$folder/schemathesis.toml" <<TOML
[parameters]
"path.app" = "news"
[[operations]]
include-path-regex = '/campaigns/[{]id[}]'
parameters = { "path.app" = "news", "path.id" = "$campaign" }
[[operations]]
include-path-regex = '/notifications/[{]id[}]'
parameters = { "path.app" = "news", "path.id" = "$notification" }
[[operations]]
include-path-regex = '/batches/[{]id[}]'
parameters = { "path.app" = "news", "path.id" = "$batch" }
# Nobody waits a minute for an outcome here.
[[operations]]
include-path-regex = '/outcomes$'
parameters = { "path.app" = "news", "query.wait" = 1 }
# 412: what a campaign becomes is not looked at before If-Match.
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 428, 429, "5xx"]
TOML
  cp ops/lib/schemathesis_hooks.py "$folder"
  (cd "$folder" && SCHEMATHESIS_HOOKS=schemathesis_hooks.py timeout 180 \
    "$tools/bin/st" --config-file schemathesis.toml run openapi.yaml \
    --url "http://127.0.0.1:$port" --header "Authorization: Bearer $(cat "$folder/site/api.key")" \
    --seed "$openapi_seed" --phases examples,coverage,fuzzing --max-examples 20 --max-time 100 \
    --request-timeout 30 --continue-on-failure --no-color \
    --exclude-operation-id getEvents --exclude-operation-id getCampaignEvents \
    --exclude-checks positive_data_acceptance) || status=$?
  kill -0 "$(tail -n 1 "$folder/site/pids")" || { echo "error: the service has ended"; status=1; }
  end_trial
  return "$status"
}

# A service with a simulator, as `carillon init --try` makes it. Leaves $folder and $port.
begin_trial() {
  folder=$(mktemp -d)
  port=$((20000 + RANDOM % 10000))
  .build/debug/carillon init "$folder/site" --try --port "$port" >/dev/null
  sh "$folder/site/start.sh"
}

end_trial() {
  sh "$folder/site/stop.sh"
  grep -a ' error \| warning ' "$folder/site/serve.log" | head -n 20 || true
  rm -rf "$folder"
}

# A client in Python, generated from openapi.yaml in a virtual environment of its own, does what a
# program would do. The generator knows few types of content: these are bytes for it.
generated_client() {
  local tools=$scratch/client folder port status=0
  if [[ ! -x $tools/bin/openapi-python-client ]]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet openapi-python-client==0.29.1
  fi
  begin_trial
  cat >"$folder/client.yaml" <<YAML
content_type_overrides:
  text/csv: application/octet-stream
  application/vnd.sqlite3: application/octet-stream
  application/yaml: text/plain
YAML
  PATH=$tools/bin:$PATH openapi-python-client generate --path Sources/PushServer/OpenAPI/openapi.yaml \
    --config "$folder/client.yaml" --meta none --output-path "$folder/carillon_client" >"$folder/generated" 2>&1 ||
    cat "$folder/generated"
  PYTHONPATH=$folder timeout 120 "$tools/bin/python" ops/lib/generated_client.py \
    "http://127.0.0.1:$port" "$(cat "$folder/site/api.key")" || status=$?
  end_trial
  return "$status"
}

openapi_token=$(printf '0123456789abcdef%.0s' 1 2 3 4)

# Makes something of the app `news`, and prints what it is called. Uses $folder and $port.
openapi_post() {
  curl --silent --show-error --max-time 30 --header "Authorization: Bearer $(cat "$folder/site/api.key")" \
    "http://127.0.0.1:$port/v1/apps/news/$1" --header 'Content-Type: application/json' --data "$2" |
    python3 -c 'import json, sys; made = json.load(sys.stdin); print(made.get("id") or made["batchId"])'
}

# Old libraries that send over the binary protocol, for OldClientTests. pushjack and apns-client are
# in a virtual environment; apns-client changes a context in use, which pyOpenSSL 25 forbids. PyAPNs
# is Python 2 only: Python 3 stops at "except ssl.SSLError, err:". It is left out where there is no
# Python 2.7. CARILLON_OLD_CLIENTS names the folder.
old_clients_install() {
  local folder=$repository/.build/old-clients python2
  if [[ ! -e $folder/complete ]]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet setuptools pushjack==1.6.0 apns-client==0.2.1 pyOpenSSL==24.2.1
    for python2 in python2.7 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/2.7*/bin/python; do
      "$python2" -c 'import ssl' 2>/dev/null || continue
      "$python2" -m pip install --quiet --target "$folder/pyapns" apns==2.0.1
      ln -s "$(command -v "$python2")" "$folder/python2"
      break
    done
    touch "$folder/complete"
  fi
  [[ -e $folder/python2 ]] || echo "There is no Python 2.7: PyAPNs is left out."
}
