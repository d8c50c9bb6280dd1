# Shared by the scripts in ops/ that need a PostgreSQL server of their own, on loopback. Source it
# after common.sh; it runs nothing by itself. The script that sources it defines `work`.

# The folder of the servers, once there is one.
database=
tools=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort --version-sort | tail -n 1)
# The server refuses to run as root. Its user may not see the repository's folder.
as_user() { "$@"; }
# make_database NAME : a server without databases of its own.
make_database() {
  database=$(mktemp -d "${TMPDIR:-/tmp}/carillon-database-XXXXXX")
  if ((EUID == 0)); then
    chown postgres "$database"
    as_user() { (cd "$database" && setpriv --reuid=postgres --regid=postgres --clear-groups "$@"); }
  fi
  as_user "$tools/initdb" --pgdata="$database/$1" --auth=trust --username=carillon --encoding=UTF8 \
    --locale=C.UTF-8 >"$work/database.log" 2>&1 || die "$(cat "$work/database.log")"
}
# start_database NAME PORT [SETTING…]
start_database() {
  local setting options="-p $2 -k $database -c listen_addresses=127.0.0.1"
  for setting in "${@:3}"; do options+=" -c $setting"; done
  as_user "$tools/pg_ctl" --pgdata="$database/$1" --log="$database/$1.log" --wait --timeout=60 \
    --options="$options" start >>"$work/database.log" 2>&1 ||
    die "PostgreSQL does not start: $(cat "$database/$1.log")"
}
end_databases() {
  local folder
  [[ -n $database ]] || return 0
  for folder in "$database"/*/; do
    [[ -e $folder/postmaster.pid ]] || continue
    as_user "$tools/pg_ctl" --pgdata="$folder" --mode=immediate --wait stop >>"$work/database.log" 2>&1 || true
  done
  cp "$database"/*.log "$work" 2>/dev/null || true
  rm -rf "$database"
}
# sql PORT STATEMENT [DATABASE]
sql() { PGOPTIONS='-c client_min_messages=warning' psql --host="$database" --port="$1" --username=carillon --no-psqlrc --quiet --tuples-only --no-align \
  --command="$2" "${3:-postgres}"; }
