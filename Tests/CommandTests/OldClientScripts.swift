/// Programs that send with a library of others, as its own documentation shows it.
///
/// Arguments: port, port of the feedback service, a file with certificate and key, number of
/// notifications, a bad one every so many. Each sends all of them, then reads the feedback service
/// until the file `stop` is there, and prints one JSON object.
enum OldClientScripts {
  /// In front of each: works with Python 2 and 3.
  private static let head = """
    import json, os, sys, time
    port, feedback, pem = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    count, every = int(sys.argv[4]), int(sys.argv[5])
    deadline = time.time() + 600
    def token(n):
        return ("bad" if n % every == every // 2 else "00a") + "%061x" % n
    tokens = [token(n) for n in range(count)]
    reported, gone = [], []
    def is_over():
        is_complete = len(reported) == sum(key.startswith("bad") for key in tokens)
        return os.path.exists("stop") and is_complete or time.time() > deadline

    """

  private static let tail = """

    print(json.dumps({"reported": reported, "gone": gone}))
    sys.stdout.flush()
    os._exit(0)
    """

  /// pushjack 1.6.0 sends batches of 100 and looks for an error response after each.
  ///
  /// It calls `ssl.wrap_socket`, which Python 3.12 has no more.
  static let pushjack =
    head + """
      import ssl
      if not hasattr(ssl, "wrap_socket"):
          def wrap_socket(sock, keyfile=None, certfile=None, **options):
              context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
              context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
              context.load_cert_chain(certfile, keyfile)
              return context.wrap_socket(sock, **options)
          ssl.wrap_socket = wrap_socket
      import pushjack
      client = pushjack.APNSClient(certificate=pem, default_error_timeout=10, default_expiration_offset=3600)
      client.host = client.feedback_host = "localhost"
      client.port, client.feedback_port = port, feedback
      response = client.send(tokens, {"text": "Hello"}, expiration=2000000000)
      reported = [[key, error.code] for key, error in response.token_errors.items()]
      client.close()
      while not is_over():
          gone += [[entry.token, entry.timestamp] for entry in client.get_expired_tokens()]
          time.sleep(0.1)
      """ + tail

  /// apns-client 0.2.1 writes 2 KiB, looks for an error response, and waits for one at the end.
  ///
  /// It asks for SSL 3, which no OpenSSL has any more.
  static let apnsClient =
    head + """
      import OpenSSL.SSL
      OpenSSL.SSL.SSLv3_METHOD = OpenSSL.SSL.SSLv23_METHOD
      import apnsclient, calendar
      session = apnsclient.Session(read_tail_timeout=10)
      service = apnsclient.APNs(session.get_connection(("127.0.0.1", port), cert_file=pem))
      message = apnsclient.Message(tokens, alert="Hello", expiry=2000000000)
      while message is not None:
          result = service.send(message)
          reported += [[key, reason[0]] for key, reason in result.failed.items()]
          assert not result.errors, result.errors
          message = result.retry() if result.needs_retry() else None
      while not is_over():
          connection = session.new_connection(("127.0.0.1", feedback), cert_file=pem)
          for key, at in apnsclient.APNs(connection).feedback():
              gone.append([key if isinstance(key, str) else key.decode(), calendar.timegm(at.timetuple())])
          time.sleep(0.1)
      """ + tail

  /// PyAPNs 2.0.1 reads error responses on a thread, and sends again what followed. For Python 2.
  static let pyAPNs =
    head + """
      import apns, calendar
      service = apns.APNs(cert_file=pem, key_file=pem, enhanced=True)
      gateway = service.gateway_server
      gateway.server, gateway.port = "127.0.0.1", port
      gateway.register_response_listener(
          lambda error: reported.append([tokens[error["identifier"]], error["status"]]))
      for n in range(count):
          gateway.send_notification(tokens[n], apns.Payload(alert="Hello"), identifier=n, expiry=2000000000)
      while not is_over():
          reader = apns.APNs(cert_file=pem, key_file=pem).feedback_server
          reader.server, reader.port = "127.0.0.1", feedback
          gone += [[key, calendar.timegm(at.timetuple())] for key, at in reader.items()]
          time.sleep(0.1)
      """ + tail
}
