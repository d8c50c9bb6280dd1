internal import Carillon
internal import PushWire

/// What ``ServiceSetup`` writes and says.
enum SetupText {
  static func configuration(_ setup: ServiceSetup) -> String {
    let credential =
      setup.isTrial
      ? """
          gateway: "localhost:\(setup.port + 2)"                   # the simulator; without it, Apple's service
          trust: certs/ca.pem                         # the simulator's authority; not for Apple's
          credential: { key: certs/AuthKey_CARILLON01.p8, team-id: THROWAWAY1 }
      """
      : """
          # The token key of your Apple developer account, and its team. Or a certificate:
          # credential: { certificate: news.pem, key: news.key }
          credential: { key: AuthKey_ABC123DEFG.p8, team-id: DEF123GHIJ }
          environment: production                     # or sandbox
      """
    return """
      # Configuration of carillon serve. Relative paths start at this folder.
      # "carillon serve --config carillon.yaml --check" says what is wrong, and what would be done.

      journal:
        directory: journal                            # what was acknowledged survives a crash there
        sync: interval                                # always | interval (10 ms) | never

      api:
        listen: "127.0.0.1:\(setup.port)"
        # For other machines, a certificate is needed:
        # certificate: api.pem
        # key: api.key.pem
        # max-body: 16MiB
        # max-connections: 1024
        # max-address-connections: 768              # of one address
        # max-keyless-connections: 256              # of clients that have shown no key
        # idle-timeout: 120s
        # rate-limit: 1000/s                          # requests of one key; default: any number
        # hosts: [push.example.com]                   # names under which the dashboard answers

      admin:
        listen: "127.0.0.1:\(setup.port + 1)"                     # /healthz, /readyz, /metrics

      # store: { path: store.db }
      # retention: 168h                               # how long outcomes can be asked for
      # shutdown: { announce: 0s, drain: 10s }        # announce: behind a load balancer
      # log: { level: info, format: text }            # or format: json

      apps:
        - id: \(ServiceSetup.app)
          topic: \(ServiceSetup.topic)                      # the app's bundle identifier
          transport: http2
      \(credential)
          # queue: { bytes: 16MiB }                   # then requests are answered with 429
          # connections: { min: 1, max: 8 }
          # rate-limit: 5000/s
          # weight: 1                                 # its share when apps have more to send than can be sent
          # time-zone: Europe/Berlin                  # of quiet hours, and of devices that name none
          # quiet-hours: "22:00-08:00"                # campaigns wait in these hours
          # caps: [{ per: 24h, count: 3 }]            # campaigns that a user gets at most
          # holdout-percent: 5                        # of users, who get no campaigns
          # feedback: { every: 24h }                  # transport: binary only

      """
  }

  /// Starts simulator and service in the background, and returns when the service is ready.
  static func start(_ setup: ServiceSetup) -> String {
    """
    #!/bin/sh
    # Starts a simulator of Apple's push service, and carillon serve in front of it.
    # stop.sh ends both.
    set -eu
    cd "$(dirname "$0")"
    carillon=${CARILLON:-\(setup.program.asShellWord)}
    "$carillon" simulate --gateway-port 0 --feedback-port 0 --http2-port \(setup.port + 2) \\
      --certificate certs/server.pem --key certs/server.key --client-ca certs/ca.pem \\
      --token-key certs/AuthKey_CARILLON01.p8 --key-id CARILLON01 --team-id THROWAWAY1 >simulator.log 2>&1 &
    echo $! >pids
    "$carillon" serve --config carillon.yaml >serve.log 2>&1 &
    echo $! >>pids
    tries=0
    until grep -qs '^Serves' serve.log; do
      tries=$((tries + 1))
      if [ $tries -gt 300 ] || ! kill -0 $! 2>/dev/null; then
        cat simulator.log serve.log >&2
        sh stop.sh
        exit 1
      fi
      sleep 0.1
    done
    echo "carillon serves the API on http://127.0.0.1:\(setup.port). sh \(setup.directory.asShellWord)/stop.sh ends it."
    echo "The same address shows the dashboard: log in with the key in \(setup.keyFile.asShellWord)."

    """
  }

  static let stop = """
    #!/bin/sh
    # Ends what start.sh has started.
    cd "$(dirname "$0")"
    [ -f pids ] || exit 0
    for pid in $(cat pids); do kill "$pid" 2>/dev/null || true; done
    rm -f pids

    """

  static func nextSteps(_ setup: ServiceSetup) -> String {
    let (directory, key) = (setup.directory.asShellWord, setup.keyFile.asShellWord)
    let program = setup.program.asShellWord
    let token = String(repeating: "0123456789abcdef", count: 4)
    let base = "http://127.0.0.1:\(setup.port)/v1/apps"
    let start =
      setup.isTrial
      ? "sh \(directory)/start.sh"
      : """
      # Name your key or certificate in \(setup.configurationFile), then:
      \(program) serve --config \(setup.configurationFile.asShellWord) --check
      \(program) serve --config \(setup.configurationFile.asShellWord) &
      """
    return """
      \(setup.configurationFile) and a key with every scope, \(setup.keyFile), are written. Copy this:

      \(start)
      AUTH="Authorization: Bearer $(cat \(key))"
      # A notification; the answer has its id.
      curl -sS -H "$AUTH" \(base)/\(ServiceSetup.app)/notifications \\
        -d '{"token":"\(token)","payload":{"aps":{"alert":"Hello"}}}' | tee \(directory)/answer.json; echo
      # What became of it.
      ID=$(sed 's/.*"id":"\\([^"]*\\)".*/\\1/' \(directory)/answer.json)
      for second in 1 2 3 4 5 6 7 8 9 10; do
        curl -sS -H "$AUTH" \(base)/\(ServiceSetup.app)/notifications/$ID >\(directory)/outcome.json
        grep -q '"outcome":"' \(directory)/outcome.json && break
        sleep 1
      done
      cat \(directory)/outcome.json; echo
      # The apps and their state.
      curl -sS -H "$AUTH" \(base); echo
      """
  }
}
