import json

import pytest

from loops.agent.asking import Patience
from loops.agent.model import ModelError, ModelSettings
from loops.agent.models.replay import ReplayModel
from loops.agent.models.scripted import ScriptedModel, script_from_json
from loops.agent.transcript import Assistant, Reply, Round, System, Transcript, User
from loops.errors import RequestError
from tests.unit.agent.working import START, NotingTool, agent, call, ends, no_wait, run, says

CONVERSATION = (System("You work."), User("Do it."))


async def test_a_scripted_model_is_called_what_it_is_and_refuses_beyond_its_script():
    model = ScriptedModel([says("Hello.", call("look"))])
    heard: list[str] = []
    reply = await model.request(CONVERSATION, (), ModelSettings(), heard.append)
    assert (model.name, heard, reply.finish) == ("scripted", ["Hello."], "tool_calls")
    with pytest.raises(ModelError, match="ends after 1 turns"):
        await model.request((*CONVERSATION, Assistant("Hello.")), (), ModelSettings(), heard.append)


async def test_a_recorded_task_runs_again_without_its_model():
    look = NotingTool("look", lambda _: "a cat")
    first = await run(agent([says("I look."), says("", call("look")), ends("A cat.")], [look]))
    recorded = Transcript.from_json(json.loads(json.dumps(first.transcript.as_json())))
    again = await run(agent(ReplayModel(recorded), [NotingTool("look", lambda _: "a cat")]))
    assert (again.ending, again.message) == ("done", "A cat.")
    assert again.transcript.messages() == first.transcript.messages()


async def test_a_replay_that_diverges_is_refused_and_says_where():
    first = await run(agent([says("", call("look")), ends("A cat.")], [NotingTool("look", lambda _: "a cat")]))
    other = await run(agent(ReplayModel(first.transcript), [NotingTool("look", lambda _: "a dog")]))
    assert other.ending == "provider_error"
    assert "round 2: the result of look (message 4) differs: from character 27 on" in other.reason
    elsewhere = await run(agent(ReplayModel(first.transcript)), Transcript("You work.", "Do that."))
    assert "round 1: the first message differs" in elsewhere.reason
    assert "recorded 'Do it.', now 'Do that.'" in elsewhere.reason


async def test_a_replay_ends_where_its_recording_does():
    recorded = Transcript("You work.", "Do it.", (Round(1, START, Reply("Hm.")),))
    result = await run(agent(ReplayModel(recorded), patience=Patience(sleep=no_wait)))
    assert "the recording ends after 1 rounds" in result.reason


async def test_a_script_is_read_from_json_and_faults_name_their_place():
    script = script_from_json(
        [
            {"text": "I look.", "calls": [{"name": "look"}]},
            {"calls": [{"name": "finalize", "arguments": {"final_message": "Seen."}}]},
        ]
    )
    result = await run(agent(script, [NotingTool("look")]))
    assert (result.ending, result.message) == ("done", "Seen.")
    with pytest.raises(RequestError, match="unknown key 'say'") as caught:
        script_from_json([{"text": "a"}, {"say": "b"}])
    assert caught.value.path == "script[1]"
