# Shared by the scripts in ops/: where the repository is, plain output, timed steps, and the Debian
# packages that a build needs. Source it; it runs nothing by itself.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$repository"
scratch="$repository/.build/ops"
mkdir -p "$scratch"

# The libraries that the build links, and pkg-config to find their headers.
packages=(libssl-dev libnghttp2-dev libsqlite3-dev liblz4-dev libpq-dev pkg-config openssl)
# What the tests need besides: Python and Go for the gateways of Tests/IntegrationTests, the lz4
# tool to read the journal's files, nghttpd, nghttp and h2load for both sides of HTTP/2, Chromium
# for the dashboard, systemd-analyze for the unit file, a PostgreSQL server for the store on it,
# Python's YAML for the compose file, and two proxies with TLS in front and a resolver of their own.
test_packages=(lz4 python3 python3-venv python3-h2 golang-go curl nghttp2-client nghttp2-server chromium)
test_packages+=(chromium-driver systemd)
test_packages+=(postgresql python3-yaml tinyproxy-bin microsocks socat libnss-wrapper)

tests_passed=0
tests_failed=0

say() { printf '%s\n' "$*"; }
heading() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# Seconds as people read them: "7 s", "2 min 05 s".
spoken_duration() {
  local seconds=$1
  if ((seconds < 60)); then
    printf '%d s' "$seconds"
  else
    printf '%d min %02d s' $((seconds / 60)) $((seconds % 60))
  fi
}

install_packages() {
  command -v swift >/dev/null ||
    die "No Swift toolchain found: install Swift 6.2 or later (https://www.swift.org/install)," \
      "and put \`swift\` on the PATH."
  local missing=() package
  for package in "${packages[@]}"; do
    [[ $(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null) == 'install ok installed' ]] ||
      missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    say "Debian packages: all present (${packages[*]})"
    return
  fi
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "Debian packages are missing; install them as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Debian packages: installing ${missing[*]}"
  local log="$scratch/packages.log"
  {
    "${as_root[@]}" apt-get update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt-get could not install ${missing[*]} (the whole output is in $log)."
  }
}

log_of() { printf '%s' "$scratch/$(tr -c 'A-Za-z0-9\n' '-' <<<"$1").log"; }

# step TITLE COMMAND… : runs it with its output in a file, and says how long it took. What it used
# of the processors, user and system, stands behind: on idle cores it shows how parallel a step is.
# Returns the command's exit status; the output stays in $step_log. With `watched=yes step …`, it
# also shows how far a build is.
step() {
  local title=$1 started=$SECONDS status=0 used watcher=
  shift
  step_log=$(log_of "$title")
  TIMEFORMAT='%1U %1S'
  if [[ -n ${watched:-} ]]; then
    : >"$step_log"
    watch_build "$step_log" &
    watcher=$!
  fi
  { time "$@" >"$step_log" 2>&1; } 2>"$step_log.time" || status=$?
  if [[ -n $watcher ]]; then
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    [[ ! -t 1 ]] || printf '\r\033[K'
  fi
  used=$(awk '{ seconds += $1 + $2 } END { print int(seconds + 0.5) }' "$step_log.time")
  printf '%-54s %-6s %12s  (CPU %s)\n' "$title" "$( ((status == 0)) && echo ok || echo FAILED)" \
    "$(spoken_duration $((SECONDS - started)))" "$(spoken_duration "$used")"
  return "$status"
}

# Shows the last step of a build by its log until it is killed: in place on a terminal, every 30 s
# elsewhere.
watch_build() {
  local line seconds=0
  while sleep 1; do
    seconds=$((seconds + 1))
    line=$(grep -aoE '^\[[0-9]+/[0-9]+\] .*' "$1" | tail -n 1 || true)
    if [[ -t 1 ]]; then
      printf '\r\033[K  %s  %.60s' "$(spoken_duration "$seconds")" "${line:-preparing}"
    elif ((seconds % 30 == 0)); then
      say "  $(spoken_duration "$seconds")  ${line:-preparing}"
    fi
  done
}

# Prints the lines of a log that say what is wrong, or its end if no line does.
show_trouble() {
  local log=$1 lines
  local signs='(error|warning): |✘|^↳ [^LT]|Fatal error|SUMMARY: ThreadSanitizer|Current stack trace'
  lines=$(grep -aE "$signs" "$log" | awk '!seen[$0]++' | head -n 60 || true)
  [[ -n $lines ]] || lines=$(tail -n 40 "$log")
  sed 's/^/    /' <<<"$lines"
  say "    (the whole output: ${log#"$repository"/})"
}

# A step that runs no tests: only its failure counts.
check() {
  local status=0
  step "$@" || status=$?
  check_ending "$status"
}

check_ending() {
  (($1 == 0)) && return
  tests_failed=$((tests_failed + 1))
  show_trouble "$step_log"
  return "$1"
}

# begin TITLE COMMAND… : a step that runs beside the following ones, until `check_begun TITLE`.
declare -A begun=()
begin() {
  step "$@" >"$(log_of "$1").ending" &
  begun[$1]=$!
}

# check_begun TITLE : waits for a step that `begin` has begun; then like `check`.
check_begun() {
  local status=0
  wait "${begun[$1]}" || status=$?
  step_log=$(log_of "$1")
  cat "$step_log.ending"
  check_ending "$status"
}

# Adds the counts of a `swift test` log to the sums. Arguments: the log, its exit status.
count_tests() {
  local log=$1 status=$2 summary run=0 skipped=0 failed=0
  summary=$(grep -aoE 'Test run with [0-9]+ tests?' "$log" | tail -n 1 || true)
  [[ -z $summary ]] || run=$(grep -oE '[0-9]+' <<<"$summary")
  skipped=$(grep -acE '^➜ +Test .* skipped' "$log" || true)
  # Only the line of the test itself: cases of a parameterised test, and suites, have lines too.
  failed=$(grep -aE '^✘ +Test .* failed after ' "$log" | grep -avcE '^✘ +Test (case|run) ' || true)
  tests_run=$((run - skipped))
  # A crash leaves no summary, and a failure outside any test no line: neither may look green.
  if ((status != 0 && failed == 0)); then failed=1; fi
  local passed=$((tests_run - failed))
  if ((passed < 0)); then passed=0; fi
  tests_passed=$((tests_passed + passed))
  tests_failed=$((tests_failed + failed))
  say "    $tests_run tests ran, $failed failed, $skipped skipped"
}

# test_step TITLE COMMAND… : a `swift test` step. No test at all is a failure.
test_step() {
  local status=0
  step "$@" || status=$?
  count_tests "$step_log" "$status"
  if ((status == 0 && tests_run == 0)); then
    say "    no test ran: the filter or the build is wrong"
    tests_failed=$((tests_failed + 1))
    return 1
  fi
  # What `timeout` returns when it has ended something.
  if ((status == 124 || status == 137)); then show_unfinished "$step_log"; fi
  ((status == 0)) || show_trouble "$step_log"
  return "$status"
}

# Names the tests that a log begins and does not end.
show_unfinished() {
  say "    ended for its length; these tests had begun, and had not ended:"
  grep -aE '^. +(Test|Suite) ' "$1" | grep -avE '^. +Test (case|run) ' | awk '
    / started\.$/ { sub(/^[^ ]+ +/, ""); sub(/ started\.$/, ""); open[$0] = 1 }
    / (passed|failed) after / { sub(/^[^ ]+ +/, ""); sub(/ (with [0-9]+ test cases? )?(passed|failed) after .*/, ""); delete open[$0] }
    END { for (name in open) print "    " name }' | sort
}

# Builds the command for release, and leaves its path in $carillon.
build_carillon() {
  build_release() { swift build --configuration release --product carillon; }
  watched=yes step "build (release)" build_release || {
    show_trouble "$step_log"
    die "The build failed."
  }
  carillon="$(swift build --configuration release --show-bin-path)/carillon"
}
