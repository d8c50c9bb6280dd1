enum PushEngineModule {}
