"""A client that a generator made of openapi.yaml, used as a program would use it.

    python3 generated_client.py URL KEY

The package `carillon_client` is generated before. Every operation must be in it, and what it sends
must come back from the service: the account of the campaign is what the list of outcomes has.
"""

import importlib
import io
import pkgutil
import re
import sys
import time

import carillon_client.api as api
import carillon_client.models as models
from carillon_client import AuthenticatedClient
from carillon_client.types import UNSET, File


def operations():
    """Each generated operation by its name, in words joined by underscores."""
    found = {}
    for part in pkgutil.iter_modules(api.__path__, f"{api.__name__}."):
        for module in pkgutil.iter_modules(importlib.import_module(part.name).__path__, f"{part.name}."):
            found[module.name.rpartition(".")[2]] = importlib.import_module(module.name)
    return found


def words(operation_id):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation_id).lower()


def wait_for(what, ask):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := ask():
            return found
        time.sleep(0.05)
    sys.exit(f"error: {what} did not come within a minute")


def main(url, key):
    known = operations()
    client = AuthenticatedClient(base_url=url, token=key, timeout=30)

    def call(operation, *parameters, **named):
        answer = known[operation].sync(*parameters, client=client, **named)
        if isinstance(answer, models.Problem):
            sys.exit(f"error: {operation}: {answer.title}: {answer.detail}")
        return answer

    document = known["get_description"].sync_detailed(client=client).content.decode()
    missing = [name for name in re.findall(r"operationId: (\w+)", document) if words(name) not in known]
    if missing:
        sys.exit(f"error: the generator left out {', '.join(missing)}")

    service = call("get_service")
    assert service.version and service.api_version == 1, service
    assert [app.id for app in call("get_apps").items] == ["news"]

    tokens = [f"{number:064x}" for number in range(1, 8)]
    rows = "token,tags\n" + "".join(f"{token},de\n" for token in tokens[:4])
    imported = call("import_devices", "news", body=File(payload=io.BytesIO(rows.encode())))
    assert imported.created == 4 and imported.rejected == 0, imported
    assert len(call("get_devices", "news", tag="de").items) == 4

    payload = {"aps": {"alert": "Hello"}}
    queued = call(
        "post_notification", "news",
        body=models.Notification.from_dict({"token": tokens[4], "payload": payload, "reference": "one"}))
    single = wait_for(
        "the outcome of a notification",
        lambda: (state := call("get_notification", "news", queued.id)).outcome is not UNSET and state)
    assert single.outcome == "accepted", single

    batch = call("post_batch", "news", body=[{"token": token, "payload": payload} for token in tokens[5:]])
    assert batch.accepted == 2, batch

    plan = models.CampaignPlan.from_dict({"name": "Uploaded", "payload": payload})
    campaign = call("post_campaign", "news", body=plan)
    upload = call(
        "post_audience", "news", campaign.id, body=File(payload=io.BytesIO(f"token\n{tokens[0]}\n".encode())))
    assert upload.lines == 2 and upload.complete, upload
    call("start_campaign", "news", campaign.id)
    wait_for("the end of a campaign", lambda: call("get_campaign", "news", campaign.id).state == "finished")
    account = call("get_campaign_account", "news", campaign.id).apps["news"]

    def listed():
        page = call("get_outcomes", "news", limit=100)
        return len(page.items) == 4 and page.items

    outcomes = wait_for("the list of outcomes", listed)
    of_campaign = [item for item in outcomes if item.campaign == campaign.id]
    assert len(of_campaign) == account.submitted == account.accepted.confirmed == 1, account
    assert {item.outcome for item in outcomes} == {"accepted"}, outcomes
    assert [item.reference for item in outcomes if item.id == queued.id] == ["one"], outcomes

    # The trial's gateway has no service that manages channels.
    refused = known["post_channel"].sync("news", client=client, body=models.PostChannelBody.from_dict({"store": "last"}))
    assert isinstance(refused, models.Problem) and refused.status == 409, refused

    copy = call("post_backup").payload.read()
    assert copy.startswith(b"SQLite format 3\0"), copy[:16]
    refused = known["get_app"].sync("absent", client=client)
    assert isinstance(refused, models.Problem) and refused.status == 404, refused
    print(f"{len(known)} operations are generated; 4 notifications were sent and listed by them")


main(*sys.argv[1:])
