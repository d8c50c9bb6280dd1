internal import Testing
@Test func placeholderCommandTests() {}
