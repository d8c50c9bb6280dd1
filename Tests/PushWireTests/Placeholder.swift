internal import Testing
@Test func placeholderPushWireTests() {}
