SET foreign_key_checks = 0;

CREATE TABLE `regsvc_allowlist` (
  `username_key` varchar(255) NOT NULL COMMENT 'the name in lower case',
  `username` varchar(255) NOT NULL COMMENT 'the name as it is, or was, on the list',
  `state` varchar(16) NOT NULL COMMENT 'add and remove: is to be; listed; taken_off: by somebody in the game',
  `uuid` varchar(36) DEFAULT NULL COMMENT 'the player''s in the game; empty: not known yet',
  `reason` varchar(16) DEFAULT NULL COMMENT 'what it waits for: no_uuid, no_profile, uuid_in_doubt, restart, refused, held_back',
  `since` datetime(3) NOT NULL COMMENT 'when this became so',
  `user_id` bigint(20) DEFAULT NULL COMMENT 'id of the user; empty once deleted',
  `shown_as` varchar(16) GENERATED ALWAYS AS (case when `state` = 'taken_off' then 'removed' when `state` = 'add' and `reason` = 'uuid_in_doubt' then 'conflict' when `state` = 'listed' and `reason` is null then 'listed' else 'waiting' end) STORED COMMENT 'state shown in the user list as `allowlist`',
  PRIMARY KEY (`username_key`),
  KEY `regsvc_allowlist_state` (`state`,`reason`),
  KEY `regsvc_allowlist_shown_as` (`shown_as`,`user_id`,`username_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_audit` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `action` varchar(40) NOT NULL COMMENT 'for example user.approved',
  `operator` varchar(255) NOT NULL COMMENT 'actor: a name, cli:<unix user>, sql, sync; empty if unknown',
  `target` varchar(255) DEFAULT NULL COMMENT 'name of the target',
  `detail` text DEFAULT NULL COMMENT 'JSON',
  `ip` varchar(45) DEFAULT NULL COMMENT 'the client''s address',
  `tally` varchar(64) DEFAULT NULL COMMENT 'key of an entry that is counted instead of repeated',
  `occurrences` int(11) NOT NULL DEFAULT 1 COMMENT 'number of times, for a counted entry',
  `created_at` datetime(3) NOT NULL COMMENT 'when it happened',
  PRIMARY KEY (`id`),
  UNIQUE KEY `tally` (`tally`),
  KEY `regsvc_audit_target` (`target`,`id`),
  KEY `regsvc_audit_created_at` (`created_at`),
  KEY `regsvc_audit_action_time` (`action`,`created_at`,`id`),
  KEY `regsvc_audit_operator_time` (`operator`,`created_at`,`id`,`action`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_audit (id, action, operator, target, detail, ip, tally, occurrences, created_at) VALUES
(1, 'user.adopted', 'sync', 'Ivan', '{\"status\":\"pending\"}', NULL, NULL, 1, '2031-05-04 12:00:00.123000'),
(5, 'sync.run', 'sync', NULL, '{\"scanned\":2,\"adopted\":2,\"locked\":2}', NULL, NULL, 1, '2031-05-04 12:00:00.123000'),
(12, 'user.banned', 'Olivia', 'Bob', '{\"statusBefore\":\"approved\",\"reason\":\"griefing\",\"expiresAt\":1938254400123}', '198.51.100.9', NULL, 1, '2031-05-04 12:00:00.123000'),
(27, 'user.banned', 'Olivia', 'Mallory', '{\"statusBefore\":\"approved\",\"reason\":\"naïve “quotes”; it\'s 50 % \\\\ backslash\"}', '198.51.100.9', NULL, 1, '2031-05-04 12:10:00.123000');

CREATE TABLE `regsvc_bucket` (
  `bucket` int(11) NOT NULL COMMENT 'neighbouring ids of the plugin''s table, or names with the same CRC32 modulo 65536',
  `row_count` int(11) NOT NULL COMMENT 'rows of the plugin''s table in it',
  `checksum` bigint(20) NOT NULL COMMENT 'checksum of the columns that the sync compares',
  PRIMARY KEY (`bucket`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_bucket (bucket, row_count, checksum) VALUES
(0, 6, 2772835667598);

CREATE TABLE `regsvc_chat_link` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) DEFAULT NULL COMMENT 'user; empty while unclaimed',
  `claimed_account` varchar(300) DEFAULT NULL COMMENT 'platform and account, unique among users; empty while unclaimed',
  `platform` varchar(16) NOT NULL COMMENT 'chat platform',
  `account_id` varchar(255) NOT NULL COMMENT 'its id there, which never changes',
  `username` varchar(255) NOT NULL COMMENT 'its name there, when it was linked',
  `discriminator` varchar(16) NOT NULL COMMENT 'the digits behind that name; 0 where there are none',
  `avatar` varchar(255) DEFAULT NULL COMMENT 'the platform''s id of its picture',
  `global_name` varchar(255) DEFAULT NULL COMMENT 'its display name',
  `token_hash` varchar(64) NOT NULL COMMENT 'hash of the link token that claims it',
  `linked_at` datetime(3) NOT NULL COMMENT 'when the platform confirmed it; unclaimed, it expires an hour later',
  PRIMARY KEY (`id`),
  UNIQUE KEY `token_hash` (`token_hash`),
  UNIQUE KEY `user_id` (`user_id`),
  UNIQUE KEY `claimed_account` (`claimed_account`),
  CONSTRAINT `regsvc_chat_link_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_chat_link (id, user_id, claimed_account, platform, account_id, username, discriminator, avatar, global_name, token_hash, linked_at) VALUES
(1, 4, 'discord:80351110224678912', 'discord', '80351110224678912', 'bob', '0', NULL, NULL, 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee', '2031-05-04 12:10:00.123000');

CREATE TABLE `regsvc_chat_request` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `state_hash` varchar(64) NOT NULL COMMENT 'hash of the state, which itself is not stored',
  `token_hash` varchar(64) NOT NULL COMMENT 'hash of the link token of the browser that started it',
  `session_jti` varchar(32) DEFAULT NULL COMMENT 'session that started it; empty without a login',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was started',
  PRIMARY KEY (`id`),
  UNIQUE KEY `state_hash` (`state_hash`),
  KEY `regsvc_chat_request_session_jti` (`session_jti`),
  KEY `regsvc_chat_request_created_at` (`created_at`),
  CONSTRAINT `regsvc_chat_request_ibfk_1` FOREIGN KEY (`session_jti`) REFERENCES `regsvc_session` (`jti`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_chat_request (id, state_hash, token_hash, session_jti, created_at) VALUES
(1, 'cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc', 'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd', 'f220862c5f3741ce45711021a08ba364', '2031-05-04 12:10:00.123000');

CREATE TABLE `regsvc_installation` (
  `id` int(11) NOT NULL COMMENT 'always 1' CHECK (`id` = 1),
  `installation_id` varchar(36) NOT NULL COMMENT 'id of this installation; also in the state directory',
  `home` varchar(255) NOT NULL COMMENT 'name of this database, as the daemon resolved it',
  `key_fingerprint` varchar(64) NOT NULL COMMENT 'fingerprint of the installation key, to detect another one',
  `first_started_at` datetime(3) NOT NULL COMMENT 'players registered before then existed before the companion',
  `purging_audit_before` datetime(3) DEFAULT NULL COMMENT 'set while `companion purge` removes old audit entries',
  `digested_at` datetime(3) DEFAULT NULL COMMENT 'when the last digest was mailed to admins',
  `digested_user_id` bigint(20) DEFAULT NULL COMMENT 'newest user in the last digest',
  `signing_key_fingerprint` varchar(64) DEFAULT NULL COMMENT 'of the key that signs access tokens, of the last daemon started',
  `players_table` varchar(255) DEFAULT NULL COMMENT 'table of the game''s players, as database.table; empty: not on this database server',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_installation (id, installation_id, home, key_fingerprint, first_started_at, purging_audit_before, digested_at, digested_user_id, signing_key_fingerprint, players_table) VALUES
(1, '089291bd-0823-4dca-814b-724ba7a3b840', 'mysql:127.0.0.1:27966/companion_1', 'c9d34dab55e2ef31', '2031-05-04 12:00:00.123000', NULL, '2031-05-04 12:10:00.123000', 3, NULL, NULL);

CREATE TABLE `regsvc_invitation` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'never reused',
  `nonce` varchar(32) NOT NULL COMMENT 'from which its token is derived, which is not stored',
  `grants` varchar(64) NOT NULL COMMENT 'what the invited need not do, separated by spaces',
  `uses` int(11) NOT NULL COMMENT 'for how many registrations it is',
  `used` int(11) NOT NULL COMMENT 'how many it was used for',
  `made_by` varchar(255) DEFAULT NULL COMMENT 'its maker in lower case, with whose right it ends; empty: the host, on the command line',
  `maker` varchar(255) NOT NULL COMMENT 'its maker as the audit log shows them',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was made',
  `expires_at` datetime(3) NOT NULL COMMENT 'when it ends',
  `revoked_at` datetime(3) DEFAULT NULL COMMENT 'when it was revoked, or its maker lost the right',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_known_client` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'user who logged in',
  `client` varchar(45) NOT NULL COMMENT 'IPv4 address, or /64 of an IPv6 address',
  `last_login_at` datetime(3) NOT NULL COMMENT 'last successful login',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`,`client`),
  KEY `regsvc_known_client_client` (`client`,`last_login_at`),
  CONSTRAINT `regsvc_known_client_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_known_client (id, user_id, client, last_login_at) VALUES
(1, 3, '198.51.100.7', '2031-05-04 12:00:00.123000'),
(2, 4, '198.51.100.7', '2031-05-04 12:00:00.123000');

CREATE TABLE `regsvc_lease` (
  `name` varchar(40) NOT NULL COMMENT 'task that only one process may do',
  `holder` varchar(80) NOT NULL COMMENT 'installation and process',
  `expires_at` datetime(3) NOT NULL COMMENT 'by the database''s clock',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_lease (name, holder, expires_at) VALUES
('sync', '9a7d77e2ad79fd4c36ad5388e77eebfd:done', '2026-11-23 09:58:46.429000');

CREATE TABLE `regsvc_link` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'its token is derived from it',
  `user_id` bigint(20) NOT NULL COMMENT 'user whose password it sets',
  `purpose` varchar(16) NOT NULL COMMENT 'why it was mailed' CHECK (`purpose` in ('reset','first_password')),
  `email_key` varchar(320) NOT NULL COMMENT 'address it was mailed to, and the only one it proves',
  `nonce` varchar(32) NOT NULL COMMENT 'its token is derived from it too',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was requested',
  `expires_at` datetime(3) NOT NULL COMMENT 'when it expires',
  `redeemed_at` datetime(3) DEFAULT NULL COMMENT 'when it was used or invalidated',
  `issued_by` varchar(255) DEFAULT NULL COMMENT 'operator who hands it over, in lower case; empty for a mailed one and for the command line''s',
  `maker` varchar(255) DEFAULT NULL COMMENT 'who handed it over, as the audit log shows them; empty: nobody',
  PRIMARY KEY (`id`),
  KEY `regsvc_link_user_id` (`user_id`),
  CONSTRAINT `regsvc_link_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_link (id, user_id, purpose, email_key, nonce, created_at, expires_at, redeemed_at, issued_by, maker) VALUES
(1, 3, 'reset', 'alice@example.org', '11111111111111111111111111111111', '2031-05-04 12:10:00.123000', '2031-05-04 13:10:00.123000', NULL, NULL, NULL);

CREATE TABLE `regsvc_migration` (
  `number` int(11) NOT NULL COMMENT 'of the migration',
  `name` varchar(100) NOT NULL COMMENT 'of the migration',
  `applied_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`number`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_migration (number, name, applied_at) VALUES
(100, 'baseline', '2026-11-28 10:45:49.963000'),
(101, 'rights', '2026-11-28 10:45:50.087000'),
(102, 'players_table', '2026-11-28 10:45:50.102000'),
(103, 'urgent_mails', '2026-11-28 10:45:50.110000'),
(104, 'lists', '2026-11-28 10:45:50.117000'),
(105, 'allowlist', '2026-11-28 10:45:50.162000'),
(106, 'team', '2026-11-28 10:45:50.167000'),
(107, 'applications', '2026-11-28 10:45:50.209000'),
(108, 'team_chat', '2026-11-28 10:45:50.249000');

CREATE TABLE `regsvc_note` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'id of the user at that time',
  `username_key` varchar(255) NOT NULL COMMENT 'in lower case',
  `email_key` varchar(320) DEFAULT NULL COMMENT 'the user''s proven address at that time, normalized',
  `author` varchar(255) NOT NULL COMMENT 'who wrote it',
  `text` mediumtext NOT NULL COMMENT 'what the team wrote; never shown to players, but in their export',
  `created_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`id`),
  KEY `regsvc_note_username_key` (`username_key`),
  KEY `regsvc_note_email_key` (`email_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_outbox` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'a recipient gets mails in this order',
  `kind` varchar(16) NOT NULL DEFAULT 'mail' COMMENT 'mail, webhook or rcon',
  `template` varchar(40) NOT NULL COMMENT 'name of the mail or of the webhook event',
  `recipient` varchar(320) NOT NULL COMMENT 'recipient; for a webhook its name, never its URL',
  `recipient_key` varchar(320) NOT NULL COMMENT 'normalized for comparison',
  `language` varchar(16) NOT NULL COMMENT 'language of the text',
  `user_id` bigint(20) DEFAULT NULL COMMENT 'user it is about',
  `row_id` bigint(20) DEFAULT NULL COMMENT 'verification or review it is about; read when it is sent',
  `link_id` bigint(20) DEFAULT NULL COMMENT 'password link in it',
  `attempts` int(11) NOT NULL DEFAULT 0 COMMENT 'attempts so far',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was enqueued',
  `next_attempt_at` datetime(3) DEFAULT NULL COMMENT 'next attempt; empty when done',
  `done_at` datetime(3) DEFAULT NULL COMMENT 'when it was sent, failed or dropped',
  `outcome` varchar(16) DEFAULT NULL COMMENT 'result' CHECK (`outcome` in ('sent','failed','dropped')),
  `last_error` varchar(500) DEFAULT NULL COMMENT 'error of the last failed attempt',
  `payload` text DEFAULT NULL COMMENT 'JSON body of a webhook call; contains no secrets',
  PRIMARY KEY (`id`),
  KEY `regsvc_outbox_next_attempt_at` (`next_attempt_at`),
  KEY `regsvc_outbox_recipient_key` (`recipient_key`),
  KEY `regsvc_outbox_outcome` (`outcome`,`id`),
  KEY `regsvc_outbox_user_id` (`user_id`,`id`),
  KEY `regsvc_outbox_template` (`template`,`next_attempt_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_outbox (id, kind, template, recipient, recipient_key, language, user_id, row_id, link_id, attempts, created_at, next_attempt_at, done_at, outcome, last_error, payload) VALUES
(2, 'mail', 'approved', 'alice@example.org', 'alice@example.org', 'en', 3, 1, NULL, 1, '2031-05-04 12:00:00.123000', NULL, '2031-05-04 12:10:00.123000', 'failed', '550 no such mailbox', NULL),
(3, 'mail', 'received', 'bob@example.org', 'bob@example.org', 'en', 4, NULL, NULL, 0, '2031-05-04 12:00:00.123000', '2031-05-04 12:00:00.123000', NULL, NULL, NULL, NULL),
(18, 'webhook', 'user.approved', 'webhook', 'webhook', 'en', NULL, NULL, NULL, 0, '2031-05-04 12:10:00.123000', '2031-05-04 12:10:00.123000', NULL, NULL, NULL, '{\"event\":\"user.approved\"}');

CREATE TABLE `regsvc_player_address` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'the player''s user',
  `source` varchar(8) NOT NULL COMMENT 'column of AuthMe''s table: of the last login, or of the registration in the game' CHECK (`source` in ('ip','regip')),
  `address` varchar(45) NOT NULL COMMENT 'the address there',
  `seen_at` datetime(3) NOT NULL COMMENT 'when the player logged in, or registered',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`,`source`),
  KEY `regsvc_player_address_address` (`address`),
  KEY `regsvc_player_address_seen_at` (`seen_at`),
  CONSTRAINT `regsvc_player_address_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_question` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'id of the user at that time',
  `username_key` varchar(255) NOT NULL COMMENT 'in lower case',
  `email_key` varchar(320) DEFAULT NULL COMMENT 'the user''s proven address at that time, normalized',
  `author` varchar(255) NOT NULL COMMENT 'who asked',
  `question` mediumtext NOT NULL COMMENT 'what the team asked',
  `answers` mediumtext DEFAULT NULL COMMENT 'JSON of the questionnaire''s answers that the question is about',
  `asked_at` datetime(3) NOT NULL COMMENT 'when',
  `answer` mediumtext DEFAULT NULL COMMENT 'what the applicant answered',
  `answered_at` datetime(3) DEFAULT NULL COMMENT 'when; empty: not answered',
  PRIMARY KEY (`id`),
  KEY `regsvc_question_username_key` (`username_key`),
  KEY `regsvc_question_email_key` (`email_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_questionnaire_result` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'its token is derived from it',
  `nonce` varchar(32) NOT NULL COMMENT 'its token is derived from it too',
  `user_id` bigint(20) DEFAULT NULL COMMENT 'user who registered with it; empty until then',
  `score` int(11) NOT NULL COMMENT 'points so far; never below 0',
  `max_score` int(11) NOT NULL COMMENT 'points that were possible',
  `pass_score` int(11) NOT NULL COMMENT 'points that were needed',
  `is_passed` tinyint(1) NOT NULL COMMENT 'passed, or may still pass after a review',
  `requires_review` tinyint(1) NOT NULL COMMENT 'an admin has to read it before the applicant may play',
  `summary` varchar(1000) NOT NULL COMMENT 'summary for the review queue',
  `answers` mediumtext NOT NULL COMMENT 'JSON: each question as it was asked, with its answer and points',
  `submitted_at` datetime(3) NOT NULL COMMENT 'when it was answered',
  `expires_at` datetime(3) DEFAULT NULL COMMENT 'end of its validity; empty once it was used',
  `answer_seconds` int(11) DEFAULT NULL COMMENT 'from the proof of the address to the answers; empty: not known',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`),
  KEY `regsvc_questionnaire_result_expires_at` (`expires_at`),
  CONSTRAINT `regsvc_questionnaire_result_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_questionnaire_result (id, nonce, user_id, score, max_score, pass_score, is_passed, requires_review, summary, answers, submitted_at, expires_at, answer_seconds) VALUES
(1, '22222222222222222222222222222222', 5, 7, 10, 6, 1, 1, '7 of 10', '[{\"question\": \"Why?\", \"answer\": \"To build\\nhouses; big ones\"}]', '2031-05-04 12:10:00.123000', NULL, NULL);

CREATE TABLE `regsvc_rate_limit` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `scope` varchar(40) NOT NULL COMMENT 'what is limited',
  `subject` varchar(320) NOT NULL COMMENT 'who is limited',
  `period_seconds` int(11) NOT NULL COMMENT 'length of the window',
  `started_at` datetime(3) NOT NULL COMMENT 'start of the current window',
  `ends_at` datetime(3) NOT NULL COMMENT 'end of the current window',
  `hits` int(11) NOT NULL COMMENT 'hits in the window',
  PRIMARY KEY (`id`),
  UNIQUE KEY `scope` (`scope`,`subject`,`period_seconds`),
  KEY `regsvc_rate_limit_ends_at` (`ends_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_rate_limit (id, scope, subject, period_seconds, started_at, ends_at, hits) VALUES
(1, 'registration', '198.51.100.7', 3600, '2031-05-04 12:10:00.123000', '2031-05-04 13:10:00.123000', 3);

CREATE TABLE `regsvc_reader` (
  `reader` varchar(255) NOT NULL COMMENT 'member of the team, in lower case',
  `name` varchar(255) NOT NULL COMMENT 'as shown',
  `username_key` varchar(255) NOT NULL COMMENT 'the user who is open at theirs',
  `seen_at` datetime(3) NOT NULL COMMENT 'when their page last said so',
  PRIMARY KEY (`reader`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_recovery_code` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'user',
  `code_hash` varchar(64) NOT NULL COMMENT 'keyed hash of a code that was not used yet; the code itself is not stored',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was shown',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`,`code_hash`),
  CONSTRAINT `regsvc_recovery_code_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_recovery_code (id, user_id, code_hash, created_at) VALUES
(1, 3, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '2031-05-04 12:10:00.123000'),
(2, 3, 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', '2031-05-04 12:10:00.123000');

CREATE TABLE `regsvc_review` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'id of the user at that time',
  `username` varchar(255) NOT NULL COMMENT 'as the player writes it',
  `username_key` varchar(255) NOT NULL COMMENT 'in lower case',
  `transition` varchar(16) NOT NULL COMMENT 'approve, reject, ban, unban, delete',
  `status_before` varchar(16) NOT NULL COMMENT 'status before',
  `status_after` varchar(16) DEFAULT NULL COMMENT 'status after; empty after a deletion',
  `reason` text DEFAULT NULL COMMENT 'shown to the user',
  `ban_expires_at` datetime(3) DEFAULT NULL COMMENT 'end of a ban',
  `operator` varchar(255) NOT NULL COMMENT 'who decided',
  `reviewed_at` datetime(3) NOT NULL COMMENT 'when it was decided',
  `email_key` varchar(320) DEFAULT NULL COMMENT 'the user''s address at that time, normalized for comparison',
  `answers` mediumtext DEFAULT NULL COMMENT 'JSON of the answers that a rejection is about, to compare when the player applies again',
  PRIMARY KEY (`id`),
  KEY `regsvc_review_username_key` (`username_key`),
  KEY `regsvc_review_email_key` (`email_key`),
  KEY `regsvc_review_reviewed_at` (`reviewed_at`,`transition`,`operator`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_review (id, user_id, username, username_key, transition, status_before, status_after, reason, ban_expires_at, operator, reviewed_at, email_key, answers) VALUES
(3, 4, 'Bob', 'bob', 'ban', 'approved', 'banned', 'griefing', '2031-06-03 12:00:00.123000', 'Olivia', '2031-05-04 12:00:00.123000', 'bob@example.org', NULL),
(7, 9, 'Heidi', 'heidi', 'delete', 'approved', NULL, 'asked for it', NULL, 'Olivia', '2031-05-04 12:10:00.123000', 'heidi@example.org', NULL),
(9, 10, 'Mallory', 'mallory', 'ban', 'approved', 'banned', 'naïve “quotes”; it\'s 50 % \\ backslash', NULL, 'Olivia', '2031-05-04 12:10:00.123000', 'mallory@example.org', NULL);

CREATE TABLE `regsvc_session` (
  `jti` varchar(32) NOT NULL COMMENT 'id of the access token; the token itself is not stored',
  `user_id` bigint(20) NOT NULL COMMENT 'owner',
  `audience` varchar(8) NOT NULL COMMENT 'login that issued it' CHECK (`audience` in ('user','admin')),
  `token_generation` int(11) NOT NULL COMMENT 'the user''s token_generation when it was issued',
  `ip` varchar(45) DEFAULT NULL COMMENT 'the client''s address at login',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was issued',
  `last_seen_at` datetime(3) NOT NULL COMMENT 'rounded to a minute',
  `expires_at` datetime(3) NOT NULL COMMENT 'when it expires at the latest',
  `has_second_factor` tinyint(1) NOT NULL DEFAULT 0 COMMENT 'whether its user showed a second factor',
  PRIMARY KEY (`jti`),
  KEY `regsvc_session_user_id` (`user_id`),
  KEY `regsvc_session_expires_at` (`expires_at`),
  CONSTRAINT `regsvc_session_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_session (jti, user_id, audience, token_generation, ip, created_at, last_seen_at, expires_at, has_second_factor) VALUES
('3b3cb63b51b5f487e51a43dec361f56a', 4, 'user', 0, '198.51.100.7', '2031-05-04 12:00:00.123000', '2031-05-04 12:00:00.123000', '2031-06-03 12:00:00', 0),
('f220862c5f3741ce45711021a08ba364', 3, 'user', 0, '198.51.100.7', '2031-05-04 12:00:00.123000', '2031-05-04 12:00:00.123000', '2031-06-03 12:00:00', 0);

CREATE TABLE `regsvc_setting` (
  `name` varchar(40) NOT NULL COMMENT 'registration or announcement',
  `value` mediumtext NOT NULL COMMENT 'JSON',
  `changed_by` varchar(255) NOT NULL COMMENT 'who changed it',
  `changed_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_sync_record` (
  `username_key` varchar(255) NOT NULL COMMENT 'the name in lower case, as the plugin''s table keeps it',
  `user_id` bigint(20) DEFAULT NULL COMMENT 'user whose player this is',
  `presence` varchar(8) NOT NULL COMMENT 'state of the row when last in sync' CHECK (`presence` in ('unasked','absent','present','gone')),
  `base_hash` varchar(255) DEFAULT NULL COMMENT 'last synced: password hash',
  `base_salt` varchar(255) DEFAULT NULL COMMENT 'last synced: salt',
  `base_email` varchar(255) DEFAULT NULL COMMENT 'last synced: e-mail',
  `base_realname` varchar(255) DEFAULT NULL COMMENT 'last synced: name as written',
  `base_regdate` bigint(20) DEFAULT NULL COMMENT 'last synced: registration in the game, ms since 1970; identifies the row',
  `intent` varchar(16) DEFAULT NULL COMMENT 'the pending write to AuthMe''s row' CHECK (`intent` in ('provision','password','open')),
  `intent_hash` varchar(255) DEFAULT NULL COMMENT 'of the row being created, or of the one taken over with open',
  `intent_salt` varchar(255) DEFAULT NULL COMMENT 'of the row being created',
  `intent_regdate` bigint(20) DEFAULT NULL COMMENT 'of the row being created',
  `lock_reason` varchar(16) DEFAULT NULL COMMENT 'why the row is locked',
  `locked_at` datetime(3) DEFAULT NULL COMMENT 'when it was locked',
  `kept_hash` varchar(255) DEFAULT NULL COMMENT 'hash that the lock replaced',
  `kept_origin` varchar(16) DEFAULT NULL COMMENT 'whether it is known to be the user''s own' CHECK (`kept_origin` in ('verified','unverified')),
  `kept_premium_uuid` varchar(36) DEFAULT NULL COMMENT 'premium UUID that the lock removed',
  `kept_group` int(11) DEFAULT NULL COMMENT 'group that the lock replaced, where AuthMe has a column of groups',
  `kicked_login` bigint(20) DEFAULT NULL COMMENT 'last login of the locked row for which its player was kicked, as AuthMe writes it; 0: unknown',
  `tombstone_hash` varchar(255) DEFAULT NULL COMMENT 'hash of the row of a deleted user',
  `tombstone_regdate` bigint(20) DEFAULT NULL COMMENT 'registration of that row',
  `tombstone_at` datetime(3) DEFAULT NULL COMMENT 'when the user was deleted',
  `conflict` varchar(255) DEFAULT NULL COMMENT 'fields in conflict, reported once',
  `plugin_state` varchar(16) NOT NULL COMMENT 'state shown in the user list as `plugin`',
  `plugin_since` datetime(3) NOT NULL COMMENT 'since when it is in this state',
  `earlier_hashes` varchar(64) DEFAULT NULL COMMENT 'short checksums of the last synced hashes before this one, newest last',
  `changed_at` datetime(3) DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3) COMMENT 'when the row last changed; empty once a sync run has processed it',
  PRIMARY KEY (`username_key`),
  KEY `regsvc_sync_record_user_id` (`user_id`),
  KEY `regsvc_sync_record_changed_at` (`changed_at`),
  KEY `regsvc_sync_record_plugin_state` (`plugin_state`,`user_id`,`username_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_sync_record (username_key, user_id, presence, base_hash, base_salt, base_email, base_realname, base_regdate, intent, intent_hash, intent_salt, intent_regdate, lock_reason, locked_at, kept_hash, kept_origin, kept_premium_uuid, kept_group, kicked_login, tombstone_hash, tombstone_regdate, tombstone_at, conflict, plugin_state, plugin_since, earlier_hashes, changed_at) VALUES
('alice', 3, 'present', '$SHA$2edefee3cf209afb$2e2a9db391b7c1b6f00003463e401fc8d090c84fe0b25a043be8045f90d33284', NULL, 'alice@example.org', 'Alice', 1935662400123, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2031-05-04 12:00:00.123000', NULL, NULL),
('bob', 4, 'present', '$SHA$acf63dcea66bae44$d06a2952047b81d91faeb87cdeebb8a5e637b7dc32ced8be82c9e8aed205a7cf', NULL, 'bob@example.org', 'Bob', 1935662400123, NULL, NULL, NULL, NULL, 'banned', '2031-05-04 12:00:00.123000', '$SHA$acf63dcea66bae44$d06a2952047b81d91faeb87cdeebb8a5e637b7dc32ced8be82c9e8aed205a7cf', 'verified', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'locked', '2031-05-04 12:00:00.123000', NULL, NULL),
('carol', 5, 'absent', NULL, NULL, NULL, NULL, NULL, 'provision', '$SHA$of$carol', 'salt', 1900000000000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2031-05-04 12:05:00.123000', NULL, NULL),
('dave', 6, 'absent', NULL, NULL, NULL, NULL, NULL, 'open', '$SHA$of$dave', 'salt', 1900000000000, 'pending', '2031-05-04 12:05:00.123000', '$SHA$3d4b6f5a42960368$9d57fc1534b6f48a306259ec796f897be58d9cba8d245d1cec87e4f10409ddfc', 'unverified', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'conflict', '2031-05-04 12:05:00.123000', NULL, '2031-05-04 12:10:00.123000'),
('erin', 7, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2031-05-04 12:05:00.123000', NULL, NULL),
('frank', 8, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2031-05-04 12:05:00.123000', NULL, NULL),
('heidi', NULL, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '$SHA$557694b41d62d251$1a1a933d9f3320c8ee3dc2988f2c6f5b6bc460a15c068eec4573d502f8122bad', 1935663000123, '2031-05-04 12:10:00.123000', NULL, 'absent', '2031-05-04 12:10:00.123000', NULL, NULL),
('ivan', 1, 'present', '$SHA$1b64ce138504f837$16410eecac751c053a0fcf0293b12c30437a109998b24e743bd076c760481c40', NULL, 'ivan@example.org', 'Ivan', 1935662400123, 'password', '$SHA$of$ivan', 'salt', 1900000000000, 'pending', '2031-05-04 12:00:00.123000', '$SHA$1b64ce138504f837$16410eecac751c053a0fcf0293b12c30437a109998b24e743bd076c760481c40', 'verified', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'locked', '2031-05-04 12:00:00.123000', NULL, NULL),
('judy', 2, 'present', '$SHA$287ac05e00b3f49d$7d7e62947aa1a87b8caff2cfacef366c20d778d2ca355a664f91e20cb0956d46', NULL, NULL, 'Judy', 1935662400123, NULL, NULL, NULL, NULL, 'pending', '2031-05-04 12:00:00.123000', '$SHA$287ac05e00b3f49d$7d7e62947aa1a87b8caff2cfacef366c20d778d2ca355a664f91e20cb0956d46', 'verified', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'locked', '2031-05-04 12:00:00.123000', NULL, NULL),
('mallory', 10, 'present', '$SHA$efd3ab246425a094$43b312023f730b047091f9875c3114d51178d3a6f71c3f67dbfe0c6c074d0cec', NULL, 'mallory@example.org', 'Mallory', 1935663000123, NULL, NULL, NULL, NULL, 'banned', '2031-05-04 12:10:00.123000', '$SHA$efd3ab246425a094$43b312023f730b047091f9875c3114d51178d3a6f71c3f67dbfe0c6c074d0cec', 'verified', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'locked', '2031-05-04 12:10:00.123000', NULL, NULL);

CREATE TABLE `regsvc_sync_state` (
  `id` int(11) NOT NULL COMMENT 'always 1' CHECK (`id` = 1),
  `policy` varchar(64) NOT NULL COMMENT 'fingerprint of config and version; if it changes, every row is compared again',
  `operators` mediumtext NOT NULL COMMENT 'operators'' names at that time, in lower case, one per line',
  `user_count` bigint(20) NOT NULL COMMENT 'users at that time',
  `user_ids` bigint(20) NOT NULL COMMENT 'the sum of their ids: changes if users were deleted with SQL',
  `newest_id` bigint(20) NOT NULL COMMENT 'the newest user with a player: a newer one means that rows may have left as well',
  `compared_at` datetime(3) NOT NULL COMMENT 'when every row was last compared',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_sync_state (id, policy, operators, user_count, user_ids, newest_id, compared_at) VALUES
(1, '995a7d853ae492ff5491ea9df3b3da7bf528414208d8583f342f44870f4d47ed', 'olivia', 9, 46, 10, '2031-05-04 12:00:00.123000');

CREATE TABLE `regsvc_team_chat_event` (
  `id` varchar(80) NOT NULL COMMENT 'platform and id of what it sent us, so that it counts once',
  `received_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`id`),
  KEY `regsvc_team_chat_event_received_at` (`received_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_team_chat_link` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'never reused',
  `user_id` bigint(20) NOT NULL COMMENT 'the member of the team',
  `platform` varchar(16) DEFAULT NULL COMMENT 'the chat platform; empty: the code was not used yet',
  `account` varchar(300) DEFAULT NULL COMMENT 'platform and id of the account there',
  `name` varchar(255) DEFAULT NULL COMMENT 'the account''s name when it was linked',
  `code_hash` varchar(64) DEFAULT NULL COMMENT 'keyed hash of the code; empty once used',
  `created_at` datetime(3) NOT NULL COMMENT 'when the code was made',
  `linked_at` datetime(3) DEFAULT NULL COMMENT 'when the account was linked',
  PRIMARY KEY (`id`),
  UNIQUE KEY `account` (`account`),
  UNIQUE KEY `code_hash` (`code_hash`),
  KEY `regsvc_team_chat_link_user_id` (`user_id`),
  CONSTRAINT `regsvc_team_chat_link_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_team_chat_message` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'the number by which people in the chat name the application',
  `chat` varchar(64) NOT NULL COMMENT 'platform and channel',
  `user_id` bigint(20) NOT NULL COMMENT 'id of the applicant; 0: a test',
  `username_key` varchar(255) NOT NULL COMMENT 'the applicant''s name in lower case',
  `remote_id` varchar(64) DEFAULT NULL COMMENT 'the platform''s id of the message; empty: not sent yet',
  `shown` varchar(64) NOT NULL COMMENT 'checksum of what it shows; of a test: who answered',
  `version` varchar(16) NOT NULL COMMENT 'checksum of the answers when it was shown',
  `is_open` tinyint(1) NOT NULL COMMENT 'offers to decide',
  `changed_at` datetime(3) NOT NULL COMMENT 'when it was last sent or changed',
  PRIMARY KEY (`id`),
  UNIQUE KEY `chat` (`chat`,`user_id`),
  KEY `regsvc_team_chat_message_username_key` (`username_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_token` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'never reused',
  `name` varchar(40) NOT NULL COMMENT 'as the audit log shows it',
  `active_name` varchar(40) DEFAULT NULL COMMENT 'the name in lower case; empty once revoked',
  `public_part` varchar(10) NOT NULL COMMENT 'the part after cmp_, by which it is found',
  `hash` varchar(64) NOT NULL COMMENT 'SHA-256 of the token, which is not stored',
  `permissions` varchar(255) NOT NULL COMMENT 'what it may do, separated by spaces',
  `made_by` varchar(255) DEFAULT NULL COMMENT 'its maker in lower case, whose rights limit it; empty: the host, on the command line',
  `maker` varchar(255) NOT NULL COMMENT 'its maker as the audit log shows them',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was made',
  `expires_at` datetime(3) DEFAULT NULL COMMENT 'when it ends; empty: never',
  `last_used_at` datetime(3) DEFAULT NULL COMMENT 'when it was last used, to the hour',
  `revoked_at` datetime(3) DEFAULT NULL COMMENT 'when it was revoked, or its maker lost the right',
  PRIMARY KEY (`id`),
  UNIQUE KEY `public_part` (`public_part`),
  UNIQUE KEY `active_name` (`active_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE `regsvc_user` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'never reused',
  `username` varchar(255) NOT NULL COMMENT 'as the player writes it',
  `username_key` varchar(255) NOT NULL COMMENT 'in lower case',
  `email` varchar(320) DEFAULT NULL COMMENT 'as given',
  `email_key` varchar(320) DEFAULT NULL COMMENT 'as compared: lower case, NFC, domain as A-label',
  `is_email_verified` tinyint(1) NOT NULL DEFAULT 0 COMMENT 'proven by a code or a mailed link',
  `status` varchar(16) NOT NULL COMMENT 'desired status; operators may edit it' CHECK (`status` in ('pending','approved','rejected','banned')),
  `applied_status` varchar(16) NOT NULL COMMENT 'status applied so far; written by the daemon only' CHECK (`applied_status` in ('pending','approved','rejected','banned')),
  `is_edited` tinyint(1) GENERATED ALWAYS AS (`status` <> `applied_status`) VIRTUAL COMMENT 'edited with SQL and not applied yet',
  `language` varchar(16) DEFAULT NULL COMMENT 'language of mails and messages',
  `platform` varchar(16) NOT NULL DEFAULT 'java' COMMENT 'edition of the game' CHECK (`platform` in ('java','bedrock')),
  `password_hash` varchar(255) DEFAULT NULL COMMENT 'the password set through us, until the game changes it',
  `password_salt` varchar(255) DEFAULT NULL COMMENT 'salt, if the algorithm stores it separately',
  `password_algorithm` varchar(32) DEFAULT NULL COMMENT 'AuthMe''s name for the algorithm, or PASSLIB',
  `password_set_at` datetime(3) DEFAULT NULL COMMENT 'when the password was set',
  `token_generation` int(11) NOT NULL DEFAULT 0 COMMENT 'incremented to end every session',
  `origin` varchar(16) NOT NULL COMMENT 'how the user was created' CHECK (`origin` in ('registered','adopted','created')),
  `registration_ip` varchar(45) DEFAULT NULL COMMENT 'the client''s address',
  `created_at` datetime(3) NOT NULL COMMENT 'when the user registered, here or in the game',
  `reason` text DEFAULT NULL COMMENT 'reason of the last review; the user sees it',
  `reviewed_by` varchar(255) DEFAULT NULL COMMENT 'operator who decided',
  `reviewed_at` datetime(3) DEFAULT NULL COMMENT 'when it was decided',
  `banned_from` varchar(16) DEFAULT NULL COMMENT 'status to return to when the ban ends' CHECK (`banned_from` in ('pending','approved','rejected')),
  `ban_expires_at` datetime(3) DEFAULT NULL COMMENT 'end of the ban; empty: permanent',
  `last_login_at` datetime(3) DEFAULT NULL COMMENT 'last login on the web',
  `totp_step` bigint(20) DEFAULT NULL COMMENT 'last TOTP time step that was used; each is accepted once',
  `changed_at` datetime(3) DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3) COMMENT 'when the row last changed; empty once a sync run has processed it',
  `totp_nonce` varchar(32) DEFAULT NULL COMMENT 'from which the secret of the second factor is derived; the secret itself is not stored',
  `totp_enabled_at` datetime(3) DEFAULT NULL COMMENT 'when a code confirmed the second factor; empty: there is none, or it is not confirmed',
  `may_reapply` tinyint(1) NOT NULL DEFAULT 0 COMMENT 'rejected, but may apply again at once, under the same name, too',
  `role` varchar(16) DEFAULT NULL COMMENT 'role in the team; empty for players; operators may edit it' CHECK (`role` in ('reviewer','moderator')),
  `applied_role` varchar(16) DEFAULT NULL COMMENT 'role noted so far; written by the daemon only',
  `look_key` varchar(255) GENERATED ALWAYS AS (replace(replace(replace(`username_key`,'i','l'),'1','l'),'0','o')) STORED COMMENT 'the same for names that look alike: I, l and 1, 0 and O',
  `invited_by` varchar(255) DEFAULT NULL COMMENT 'who invited them, as the audit log shows that; empty: nobody',
  `asked_at` datetime(3) DEFAULT NULL COMMENT 'when the team asked the applicant, who has not answered yet; empty: nobody waits for an answer',
  `answered_at` datetime(3) DEFAULT NULL COMMENT 'when the applicant answered the last question; empty once it is decided',
  `is_asked` tinyint(1) GENERATED ALWAYS AS (`asked_at` is not null) STORED COMMENT 'whether a pending user has to answer first',
  PRIMARY KEY (`id`),
  UNIQUE KEY `username_key` (`username_key`),
  UNIQUE KEY `email_key` (`email_key`),
  KEY `regsvc_user_status` (`status`,`id`),
  KEY `regsvc_user_ban_expires` (`ban_expires_at`),
  KEY `regsvc_user_changed_at` (`changed_at`),
  KEY `regsvc_user_status_name` (`status`,`username_key`),
  KEY `regsvc_user_role` (`role`),
  KEY `regsvc_user_registration_ip` (`registration_ip`),
  KEY `regsvc_user_applied_role` (`applied_role`),
  KEY `regsvc_user_look_key` (`look_key`),
  KEY `regsvc_user_status_ip` (`status`,`registration_ip`),
  KEY `regsvc_user_waiting` (`status`,`is_asked`,`id`),
  KEY `regsvc_user_asked_at` (`asked_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_user (id, username, username_key, email, email_key, is_email_verified, status, applied_status, language, platform, password_hash, password_salt, password_algorithm, password_set_at, token_generation, origin, registration_ip, created_at, reason, reviewed_by, reviewed_at, banned_from, ban_expires_at, last_login_at, totp_step, changed_at, totp_nonce, totp_enabled_at, may_reapply, role, applied_role, invited_by, asked_at, answered_at) VALUES
(1, 'Ivan', 'ivan', 'ivan@example.org', 'ivan@example.org', 0, 'pending', 'pending', NULL, 'java', NULL, NULL, NULL, NULL, 0, 'adopted', NULL, '2031-05-04 12:00:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(2, 'Judy', 'judy', NULL, NULL, 0, 'pending', 'pending', NULL, 'java', NULL, NULL, NULL, NULL, 0, 'adopted', NULL, '2031-05-04 12:00:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(3, 'Alice', 'alice', 'alice@example.org', 'alice@example.org', 1, 'approved', 'approved', 'en', 'java', '$SHA$2edefee3cf209afb$2e2a9db391b7c1b6f00003463e401fc8d090c84fe0b25a043be8045f90d33284', NULL, 'SHA256', '2031-05-04 12:00:00.123000', 0, 'registered', '198.51.100.7', '2031-05-04 12:00:00.123000', NULL, 'Olivia', '2031-05-04 12:00:00.123000', NULL, NULL, '2031-05-04 12:00:00.123000', 64000000, NULL, 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn', '2031-05-04 12:10:00.123000', 0, NULL, NULL, NULL, NULL, NULL),
(4, 'Bob', 'bob', 'bob@example.org', 'bob@example.org', 1, 'banned', 'banned', 'en', 'java', '$SHA$acf63dcea66bae44$d06a2952047b81d91faeb87cdeebb8a5e637b7dc32ced8be82c9e8aed205a7cf', NULL, 'SHA256', '2031-05-04 12:00:00.123000', 1, 'registered', '198.51.100.7', '2031-05-04 12:00:00.123000', 'griefing', 'Olivia', '2031-05-04 12:00:00.123000', 'approved', '2031-06-03 12:00:00.123000', '2031-05-04 12:00:00.123000', NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(5, 'Carol', 'carol', 'carol@example.org', 'carol@example.org', 1, 'pending', 'pending', 'en', 'java', NULL, NULL, NULL, NULL, 0, 'registered', '198.51.100.7', '2031-05-04 12:05:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(6, 'Dave', 'dave', 'dave@example.org', 'dave@example.org', 1, 'pending', 'pending', 'en', 'java', '$SHA$551d488f3875cfbd$9ddf5bebd8d5f8a23cd59aa548644a2ce6e4d821370fb6ffd23cae6c48ed5131', NULL, 'SHA256', '2031-05-04 12:05:00.123000', 0, 'registered', '198.51.100.7', '2031-05-04 12:05:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(7, 'Erin', 'erin', 'erin@example.org', 'erin@example.org', 1, 'rejected', 'rejected', 'en', 'java', '$SHA$0b53a88db9fa8e1e$c6ca0d028176733f68beab9f19aaa034adc430c7ce596d48201ece9ca40dd47d', NULL, 'SHA256', '2031-05-04 12:05:00.123000', 0, 'registered', '198.51.100.7', '2031-05-04 12:05:00.123000', 'too young', 'Olivia', '2031-05-04 12:05:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL, NULL, NULL),
(8, 'Frank', 'frank', 'frank@example.org', 'frank@example.org', 1, 'approved', 'approved', 'en', 'java', NULL, NULL, NULL, NULL, 0, 'registered', '198.51.100.7', '2031-05-04 12:05:00.123000', NULL, 'Olivia', '2031-05-04 12:05:00.123000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(10, 'Mallory', 'mallory', 'mallory@example.org', 'mallory@example.org', 1, 'banned', 'banned', 'en', 'java', '$SHA$efd3ab246425a094$43b312023f730b047091f9875c3114d51178d3a6f71c3f67dbfe0c6c074d0cec', NULL, 'SHA256', '2031-05-04 12:10:00.123000', 1, 'registered', '198.51.100.7', '2031-05-04 12:10:00.123000', 'naïve “quotes”; it\'s 50 % \\ backslash', 'Olivia', '2031-05-04 12:10:00.123000', 'approved', NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE `regsvc_verification` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'the code is derived from it',
  `email_key` varchar(320) NOT NULL COMMENT 'address it was mailed to',
  `purpose` varchar(16) NOT NULL COMMENT 'register, change_email, unlink',
  `nonce` varchar(32) NOT NULL COMMENT 'the code is derived from it too',
  `tries` int(11) NOT NULL DEFAULT 0 COMMENT 'wrong attempts',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was requested',
  `handed_over_at` datetime(3) DEFAULT NULL COMMENT 'when the mail server accepted it',
  `redeemed_at` datetime(3) DEFAULT NULL COMMENT 'when it was used',
  `client` varchar(45) NOT NULL DEFAULT '' COMMENT 'client that asked last: IPv4 address, or /64 of an IPv6 address',
  `other_tries` int(11) NOT NULL DEFAULT 0 COMMENT 'wrong attempts of other clients',
  PRIMARY KEY (`id`),
  KEY `regsvc_verification_email_key` (`email_key`,`purpose`),
  KEY `regsvc_verification_created_at` (`created_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO regsvc_verification (id, email_key, purpose, nonce, tries, created_at, handed_over_at, redeemed_at, client, other_tries) VALUES
(1, 'alice@example.org', 'register', 'ba4e2c7c3cb5bc88b68d42f50d5d0ec1', 0, '2031-05-04 12:00:00.123000', NULL, '2031-05-04 12:00:00.123000', '198.51.100.7', 0);

CREATE TRIGGER regsvc_audit_is_not_changed BEFORE UPDATE ON regsvc_audit FOR EACH ROW IF NEW.id <> OLD.id OR NEW.action <> OLD.action OR NEW.operator <> OLD.operator
          OR NOT (NEW.target <=> OLD.target) OR NOT (NEW.detail <=> OLD.detail) OR NOT (NEW.tally <=> OLD.tally)
          OR NEW.created_at <> OLD.created_at OR NEW.occurrences < OLD.occurrences
          OR (NEW.occurrences > OLD.occurrences AND OLD.tally IS NULL)
          OR (NOT (NEW.ip <=> OLD.ip) AND (NEW.ip IS NOT NULL OR NOT EXISTS
               (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at))) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF;

CREATE TRIGGER regsvc_audit_is_not_deleted BEFORE DELETE ON regsvc_audit FOR EACH ROW IF NOT EXISTS (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF;

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_outbox` AS select `o`.`id` AS `id`,coalesce(`o`.`outcome`,'waiting') AS `state`,`o`.`kind` AS `kind`,`o`.`template` AS `template`,`o`.`recipient` AS `recipient`,`u`.`username` AS `username`,`o`.`language` AS `language`,`o`.`attempts` AS `attempts`,`o`.`created_at` AS `created_at`,`o`.`next_attempt_at` AS `next_attempt_at`,`o`.`done_at` AS `done_at`,`o`.`last_error` AS `last_error` from (`regsvc_outbox` `o` left join `regsvc_user` `u` on(`u`.`id` = `o`.`user_id`));

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_questions` AS select `q`.`id` AS `id`,`q`.`user_id` AS `user_id`,`q`.`username_key` AS `username_key`,`q`.`author` AS `author`,`q`.`question` AS `question`,`q`.`asked_at` AS `asked_at`,`q`.`answer` AS `answer`,`q`.`answered_at` AS `answered_at`,case when `u`.`status` = 'pending' and `u`.`asked_at` is not null and `q`.`answered_at` is null then 1 else 0 end AS `is_open` from (`regsvc_question` `q` left join `regsvc_user` `u` on(`u`.`id` = `q`.`user_id`));

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_recent_audit` AS select `a`.`id` AS `id`,`a`.`created_at` AS `created_at`,`a`.`operator` AS `operator`,`a`.`action` AS `action`,`a`.`target` AS `target`,`a`.`detail` AS `detail`,`a`.`ip` AS `ip`,`a`.`occurrences` AS `occurrences` from `regsvc_audit` `a` order by `a`.`id` desc limit 1000;

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_review_queue` AS select `u`.`id` AS `id`,`u`.`username` AS `username`,`u`.`username_key` AS `username_key`,`u`.`email` AS `email`,`u`.`is_email_verified` AS `is_email_verified`,`u`.`platform` AS `platform`,`u`.`language` AS `language`,`u`.`origin` AS `origin`,`u`.`registration_ip` AS `registration_ip`,`u`.`created_at` AS `registered_at`,case when `u`.`asked_at` is null then 'review' else 'applicant' end AS `waiting_for`,`u`.`answered_at` AS `answered_at`,coalesce(`p`.`plugin_state`,'pending') AS `plugin_state`,`p`.`plugin_since` AS `plugin_since`,(select count(0) from `regsvc_review` `r` where `r`.`username_key` = `u`.`username_key` and `r`.`transition` = 'reject') AS `times_rejected`,(select max(`r`.`reviewed_at`) from `regsvc_review` `r` where `r`.`username_key` = `u`.`username_key` and `r`.`transition` = 'reject') AS `last_rejected_at` from (`regsvc_user` `u` left join `regsvc_sync_record` `p` on(`p`.`username_key` = `u`.`username_key`)) where `u`.`status` = 'pending';

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_sync_drift` AS select `p`.`username_key` AS `username_key`,`u`.`username` AS `username`,`u`.`status` AS `status`,case when `p`.`plugin_state` in ('synced','off','absent') and `p`.`locked_at` is not null then 'locked' else `p`.`plugin_state` end AS `difference`,`p`.`plugin_since` AS `found_at`,case when `p`.`plugin_state` = 'conflict' and `p`.`conflict` = 'name' then 'the game takes this name for another one that it has already' when `p`.`plugin_state` = 'conflict' and `p`.`conflict` is not null then 'the sides differ in what stands under conflict, and neither gives way' when `p`.`plugin_state` = 'conflict' then 'the game has a row of this name that is not this user\'s' when `p`.`plugin_state` = 'returned' then 'somebody unproven registered this name in the game: an approval or the mailed link opens it' when `p`.`plugin_state` = 'pending' then 'the player is about to be written' when `p`.`lock_reason` = 'banned' then 'locked until the ban ends' when `p`.`lock_reason` = 'pending' then 'locked until the review' when `p`.`lock_reason` = 'rejected' then 'locked because the user was rejected' when `p`.`locked_at` is not null or `p`.`plugin_state` = 'locked' then 'locked' when `p`.`presence` = 'gone' then 'the player was there and is gone: unregistered in the game, or purged' else 'nobody has set a password yet: the mailed link makes the player' end AS `why`,`p`.`conflict` AS `conflict`,`p`.`intent` AS `intent`,`p`.`lock_reason` AS `lock_reason`,`p`.`locked_at` AS `locked_at` from (`regsvc_sync_record` `p` join `regsvc_user` `u` on(`u`.`id` = `p`.`user_id`)) where `p`.`plugin_state` in ('conflict','returned','pending','locked') or `p`.`locked_at` is not null or `p`.`plugin_state` = 'absent' and `u`.`status` = 'approved' union all select `u`.`username_key` AS `username_key`,`u`.`username` AS `username`,`u`.`status` AS `status`,'edited' AS `edited`,NULL AS `NULL`,'a status was typed in SQL and is not carried out yet: the next run does, or a brake holds it' AS `Name_exp_6`,NULL AS `NULL`,NULL AS `NULL`,NULL AS `NULL`,NULL AS `NULL` from `regsvc_user` `u` where `u`.`is_edited` = 1 union all select `p`.`username_key` AS `username_key`,`p`.`username_key` AS `username_key`,NULL AS `NULL`,'deleted' AS `deleted`,NULL AS `NULL`,'the user was deleted in SQL and the player is still there: the next run removes it, or a brake holds it' AS `Name_exp_6`,NULL AS `NULL`,`p`.`intent` AS `intent`,`p`.`lock_reason` AS `lock_reason`,`p`.`locked_at` AS `locked_at` from (`regsvc_sync_record` `p` left join `regsvc_user` `u` on(`u`.`id` = `p`.`user_id`)) where `p`.`user_id` is not null and `u`.`id` is null and `p`.`tombstone_at` is null;

CREATE SQL SECURITY INVOKER VIEW `regsvc_v_users` AS select `u`.`id` AS `id`,`u`.`username` AS `username`,`u`.`username_key` AS `username_key`,`u`.`email` AS `email`,`u`.`is_email_verified` AS `is_email_verified`,`u`.`status` AS `status`,`u`.`applied_status` AS `applied_status`,`u`.`reason` AS `reason`,`u`.`reviewed_by` AS `reviewed_by`,`u`.`reviewed_at` AS `reviewed_at`,`u`.`banned_from` AS `banned_from`,`u`.`ban_expires_at` AS `ban_expires_at`,`u`.`platform` AS `platform`,`u`.`language` AS `language`,`u`.`origin` AS `origin`,`u`.`registration_ip` AS `registration_ip`,`u`.`created_at` AS `registered_at`,`u`.`last_login_at` AS `last_login_at`,`u`.`password_hash` is not null AS `has_password`,coalesce(`p`.`plugin_state`,'pending') AS `plugin_state`,`p`.`plugin_since` AS `plugin_since` from (`regsvc_user` `u` left join `regsvc_sync_record` `p` on(`p`.`username_key` = `u`.`username_key`));

SET foreign_key_checks = 1