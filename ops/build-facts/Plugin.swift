import Foundation
import PackagePlugin

/// Tells the command from which commit and with which packages it was built. A plugin, because only
/// one is asked at each build: SwiftPM remembers what a manifest found out about the repository.
@main struct BuildFacts: BuildToolPlugin {
  func createBuildCommands(context: PluginContext, target: any Target) -> [Command] {
    let (package, folder) = (context.package.directoryURL, context.pluginWorkDirectoryURL)
    return [
      .prebuildCommand(
        displayName: "Commit and packages", executable: URL(filePath: "/bin/sh"),
        arguments: [package.appending(path: "ops/build-facts/facts.sh").path(), package.path(), folder.path()],
        outputFilesDirectory: folder)
    ]
  }
}
