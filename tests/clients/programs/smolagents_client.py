"""Runs both kinds of smolagents: ``python smolagents_client.py URL MODEL``; writes JSON."""

from __future__ import annotations

import json
import sys

from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool


@tool
def weather(city: str) -> str:
    """Gets the weather.

    Args:
        city: The name of the city.
    """
    return f"sunny in {city}"


def main() -> None:
    url, name = sys.argv[1:]
    model = OpenAIModel(model_id=name, api_base=url, api_key="none")
    answers = {}
    for kind in (ToolCallingAgent, CodeAgent):
        agent = kind(tools=[weather], model=model, verbosity_level=0)
        answers[kind.__name__] = agent.run("What is the weather in Rome?")
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
