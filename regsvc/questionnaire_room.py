"""The questionnaire, wired."""

from regsvc.db import Worker
from regsvc.derived import DerivedSecrets
from regsvc.ground import Ground
from regsvc.i18n import Translations
from regsvc.questionnaire_circuit import Circuit
from regsvc.questionnaire_file import load_questionnaire
from regsvc.questionnaire_results import QuestionnaireResults
from regsvc.questionnaire_scorer import ChatScorer, NoScorer, Scorer
from regsvc.questionnaire_service import AskedQuestionnaire, NoQuestionnaire, Questionnaires, SubmissionLimits
from regsvc.ratelimit import DurableLimits


def open_questionnaires(
    ground: Ground, worker: Worker, limits: DurableLimits, translations: Translations
) -> Questionnaires:
    """The file is read here, once. Raises `ConfigError` if it cannot be used."""
    config = ground.config.questionnaire
    secrets = DerivedSecrets(ground.keys.installation_key)
    results = QuestionnaireResults(secrets, ground.now, config.valid)
    if config.file is None:
        return NoQuestionnaire(results, config.pass_score)
    return AskedQuestionnaire(
        load_questionnaire(config.file, config.pass_score),
        results,
        database=ground.home.database,
        worker=worker,
        limits=limits,
        submission_limits=SubmissionLimits(config.limits_per_client, config.limits_total, config.retry_after),
        scorer=_make_scorer(ground),
        translations=translations,
        language=ground.config.server.language,
    )


def _make_scorer(ground: Ground) -> Scorer:
    config = ground.config.questionnaire
    if not config.scorer_url:
        return NoScorer()
    return ChatScorer(config, ground.config.server.language, Circuit("the scoring service", ground.now))
