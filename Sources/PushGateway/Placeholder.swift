enum PushGatewayModule {}
