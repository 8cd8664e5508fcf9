"""What a new process does first: ``fresh.py load``, ``fresh.py parse`` or ``fresh.py render``.

Prints the bytes of memory that it then holds (0 where the system does not tell). The caller times
the whole process, from its start to its end.
"""

import sys

from openai_harmony import Conversation, Message, Role, load_harmony_encoding

FINAL_HI = [200005, 17196, 200008, 3686, 200002]  # <|channel|>final<|message|>hi<|return|>


def resident_bytes() -> int:
    """Memory of this process that lies in RAM."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
    except OSError:
        return 0
    return int(line.split()[1]) * 1024


def main(stage: str) -> None:
    """Load, and go on to the stage."""
    encoding = load_harmony_encoding("HarmonyGptOss")
    if stage == "parse":
        encoding.parse_messages_from_completion_tokens(FINAL_HI, Role.ASSISTANT)
    if stage == "render":
        prompt = Conversation.from_messages([Message.from_role_and_content(Role.USER, "hi")])
        encoding.render_conversation_for_completion(prompt, Role.ASSISTANT)
    print(resident_bytes())


if __name__ == "__main__":
    main(sys.argv[1])
