internal import Testing
@Test func placeholderSimulationTests() {}
