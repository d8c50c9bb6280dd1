internal import Testing
@Test func placeholderTidyTests() {}
