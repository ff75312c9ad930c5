"""Three companions start on a cluster."""

from tests.support.cluster.companions import Place, at_their_nodes, running


def test_three_start_at_once_on_an_empty_schema(place: Place) -> None:
    with running(at_their_nodes(place), together=True) as companions:
        for companion in companions:
            assert companion.get("/health/ready").status == 200
        people = [companion.pending() for companion in companions]
        olivia = companions[0].olivia()
        for companion, person in zip(companions, people, strict=True):
            decision = {"username": person.name}
            assert companion.post("/api/admin/user/approve", decision, token=olivia).status == 200
