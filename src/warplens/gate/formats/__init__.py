"""Results of a check as other tools read them: GitHub, GitLab, SARIF and JUnit."""

from .github import markdown, workflow_commands
from .gitlab import code_quality
from .junit import junit
from .sarif import sarif

__all__ = ["code_quality", "junit", "markdown", "sarif", "workflow_commands"]
