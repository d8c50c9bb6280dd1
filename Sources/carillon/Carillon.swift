internal import ArgumentParser
@main struct Carillon: ParsableCommand {}
