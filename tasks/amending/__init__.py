"""When a later claim changes an earlier one: cues, topic, values, a judgement. `tasks.supersede` is the step."""
