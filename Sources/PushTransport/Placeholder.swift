enum PushTransportModule {}
