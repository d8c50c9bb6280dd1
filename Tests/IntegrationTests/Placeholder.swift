internal import Testing
@Test func placeholderIntegrationTests() {}
