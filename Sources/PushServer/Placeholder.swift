enum PushServerModule {}
