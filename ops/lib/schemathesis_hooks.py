"""Takes the phase away in which Hypothesis (6.170.17) searches for better examples: it looks behind
the end of a list there, for many seeds, and the comparison ends with its error."""

import hypothesis
from schemathesis.config import _projects

usual = _projects.ProjectConfig.get_hypothesis_settings


def without_target(self, **arguments):
    found = usual(self, **arguments)
    phases = [phase for phase in found.phases if phase is not hypothesis.Phase.target]
    return hypothesis.settings(found, phases=phases)


_projects.ProjectConfig.get_hypothesis_settings = without_target
