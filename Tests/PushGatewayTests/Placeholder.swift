internal import Testing
@Test func placeholderPushGatewayTests() {}
