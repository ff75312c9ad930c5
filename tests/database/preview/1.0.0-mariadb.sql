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
  KEY `regsvc_allowlist_newest` (`shown_as`,`user_id` DESC,`username_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_allowlist` (`username_key`, `username`, `state`, `uuid`, `reason`, `since`, `user_id`) VALUES
('mia_builds', 'Mia_builds', 'add', NULL, 'no_uuid', '2026-11-20 12:00:00', 12);

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
  KEY `regsvc_audit_action_time` (`action`,`created_at`,`id`),
  KEY `regsvc_audit_operator_time` (`operator`,`created_at`,`id`,`action`),
  KEY `regsvc_audit_newest` (`created_at` DESC,`id` DESC)
) ENGINE=InnoDB AUTO_INCREMENT=36 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_audit` (`id`, `action`, `operator`, `target`, `detail`, `ip`, `tally`, `occurrences`, `created_at`) VALUES
(1, 'user.registered', 'Sam_the_Mason', 'Sam_the_Mason', NULL, '198.18.20.20', NULL, 1, '2026-11-16 20:52:39.853000'),
(2, 'user.approved', 'Olivia', 'Sam_the_Mason', '{\"statusBefore\":\"pending\",\"reason\":\"Welcome! The bridge is yours.\"}', NULL, NULL, 1, '2026-11-16 23:52:39.853000'),
(3, 'user.registered', 'Oda_1987', 'Oda_1987', NULL, '198.18.21.21', NULL, 1, '2026-11-19 20:52:39.853000'),
(4, 'user.approved', 'Olivia', 'Oda_1987', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-20 02:52:39.853000'),
(5, 'user.registered', 'xX_Blaze_Xx', 'xX_Blaze_Xx', NULL, '203.0.113.40', NULL, 1, '2026-11-20 20:52:39.853000'),
(6, 'user.approved', 'Olivia', 'xX_Blaze_Xx', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-21 01:52:39.853000'),
(7, 'user.banned', 'Olivia', 'xX_Blaze_Xx', '{\"statusBefore\":\"approved\",\"reason\":\"ban.griefing\"}', NULL, NULL, 1, '2026-11-25 20:52:39.853000'),
(8, 'user.registered', 'Lena_Holz', 'Lena_Holz', NULL, '198.18.23.23', NULL, 1, '2026-11-22 20:52:39.853000'),
(9, 'user.approved', 'Olivia', 'Lena_Holz', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-22 22:52:39.853000'),
(10, 'user.registered', 'Theo_short', 'Theo_short', NULL, '198.18.24.24', NULL, 1, '2026-11-24 20:52:39.853000'),
(11, 'user.rejected', 'Olivia', 'Theo_short', '{\"statusBefore\":\"pending\",\"reason\":\"reject.short_answers\"}', NULL, NULL, 1, '2026-11-25 00:52:39.853000'),
(12, 'user.registered', 'Theo_short', 'Theo_short', NULL, '198.18.25.25', NULL, 1, '2026-11-27 18:52:39.853000'),
(13, 'user.registered', 'Blaze_is_back', 'Blaze_is_back', NULL, '203.0.113.40', NULL, 1, '2026-11-28 00:52:39.853000'),
(14, 'user.registered', 'Pixel_Papa', 'Pixel_Papa', NULL, '198.18.27.27', NULL, 1, '2026-11-28 05:52:39.853000'),
(15, 'user.registered', 'xiaolin_mc', 'xiaolin_mc', NULL, '198.18.28.28', NULL, 1, '2026-11-28 11:52:39.853000'),
(16, 'user.registered', '.BeaOnThePhone', '.BeaOnThePhone', NULL, '198.18.29.29', NULL, 1, '2026-11-28 13:52:39.853000'),
(17, 'user.registered', 'Noe_du_phare', 'Noe_du_phare', NULL, '198.18.30.30', NULL, 1, '2026-11-28 15:52:39.853000'),
(18, 'user.registered', 'Mia_builds', 'Mia_builds', NULL, '198.18.31.31', NULL, 1, '2026-11-28 18:52:39.853000'),
(19, 'token.created', 'cli:root', NULL, '{\"name\":\"dashboard\",\"permissions\":\"users.read\"}', NULL, NULL, 1, '2026-11-28 20:52:42.001000'),
(20, 'token.created', 'cli:root', NULL, '{\"name\":\"bot\",\"permissions\":\"users.read users.review\"}', NULL, NULL, 1, '2026-11-28 20:52:42.221000'),
(21, 'invitation.created', 'cli:root', NULL, '{\"id\":1,\"uses\":3,\"grants\":\"\"}', NULL, NULL, 1, '2026-11-28 20:52:42.323000'),
(22, 'user.note_added', 'cli:root', 'Sam_the_Mason', NULL, NULL, NULL, 1, '2026-11-28 20:52:42.445000'),
(23, 'user.asked', 'cli:root', 'Theo_short', NULL, NULL, NULL, 1, '2026-11-28 20:52:42.549000'),
(24, 'user.role_changed', 'cli:root', 'Sam_the_Mason', '{\"roleBefore\":null,\"role\":\"moderator\"}', NULL, NULL, 1, '2026-11-28 20:52:42.716000'),
(25, 'user.role_changed', 'cli:root', 'Oda_1987', '{\"roleBefore\":null,\"role\":\"reviewer\"}', NULL, NULL, 1, '2026-11-28 20:52:42.818000'),
(26, 'user.password_link_created', 'cli:root', 'Oda_1987', NULL, NULL, NULL, 1, '2026-11-28 20:52:42.981000'),
(27, 'user.approved', 'cli:root', 'Blaze_is_back', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-28 20:52:43.046000'),
(28, 'user.approved', 'cli:root', 'Pixel_Papa', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-28 20:52:43.170000'),
(29, 'user.approved', 'cli:root', 'xiaolin_mc', '{\"statusBefore\":\"pending\"}', NULL, NULL, 1, '2026-11-28 20:52:43.333000'),
(30, 'user.banned', 'cli:root', 'Blaze_is_back', '{\"statusBefore\":\"approved\",\"reason\":\"Griefing\",\"expiresAt\":1873659163446}', NULL, NULL, 1, '2026-11-28 20:52:43.476000'),
(31, 'user.rejected', 'cli:root', '.BeaOnThePhone', '{\"statusBefore\":\"pending\",\"reason\":\"Short answers\"}', NULL, NULL, 1, '2026-11-28 20:52:43.721000'),
(32, 'user.deleted', 'cli:root', 'xiaolin_mc', '{\"statusBefore\":\"approved\"}', NULL, NULL, 1, '2026-11-28 20:52:43.920000'),
(33, 'settings.changed', 'cli:root', NULL, '{\"setting\":\"registration\",\"open\":false,\"opensAt\":1798491164009}', NULL, NULL, 1, '2026-11-28 20:52:44.009000'),
(34, 'user.adopted', 'sync', 'Olivia', '{\"status\":\"approved\"}', NULL, NULL, 1, '2026-11-28 20:52:44.199000'),
(35, 'sync.run', 'sync', NULL, '{\"scanned\":7,\"adopted\":1}', NULL, NULL, 1, '2026-11-28 20:52:44.260000');

CREATE TABLE `regsvc_bucket` (
  `bucket` int(11) NOT NULL COMMENT 'neighbouring ids of the plugin''s table, or names with the same CRC32 modulo 65536',
  `row_count` int(11) NOT NULL COMMENT 'rows of the plugin''s table in it',
  `checksum` bigint(20) NOT NULL COMMENT 'checksum of the columns that the sync compares',
  PRIMARY KEY (`bucket`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_chat_link` (`id`, `user_id`, `claimed_account`, `platform`, `account_id`, `username`, `discriminator`, `avatar`, `global_name`, `token_hash`, `linked_at`) VALUES
(1, 1, NULL, 'discord', '80351110224678912', 'sam', '0', NULL, 'Sam', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '2026-02-03 10:00:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_chat_request` (`id`, `state_hash`, `token_hash`, `session_jti`, `created_at`) VALUES
(1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', NULL, '2026-11-28 10:00:00');

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

INSERT INTO `regsvc_installation` (`id`, `installation_id`, `home`, `key_fingerprint`, `first_started_at`, `purging_audit_before`, `digested_at`, `digested_user_id`, `signing_key_fingerprint`, `players_table`) VALUES
(1, '68e1c586-4600-4e84-841c-9412dd2126a9', 'mysql:127.0.0.1:30890/companion_1', '489880b0aae1c395', '2026-11-28 20:52:39.853000', NULL, NULL, NULL, NULL, NULL);

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_invitation` (`id`, `nonce`, `grants`, `uses`, `used`, `made_by`, `maker`, `created_at`, `expires_at`, `revoked_at`) VALUES
(1, '721f9975a2bc1db203b8a836b1acc5e0', '', 3, 0, NULL, 'cli:root', '2026-11-28 20:52:42.323000', '2026-12-28 20:52:42.323000', NULL);

CREATE TABLE `regsvc_known_client` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'user who logged in',
  `client` varchar(45) NOT NULL COMMENT 'IPv4 address, or /64 of an IPv6 address',
  `last_login_at` datetime(3) NOT NULL COMMENT 'last successful login',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`,`client`),
  KEY `regsvc_known_client_client` (`client`,`last_login_at`),
  CONSTRAINT `regsvc_known_client_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_known_client` (`id`, `user_id`, `client`, `last_login_at`) VALUES
(1, 2, '203.0.113.0/24', '2026-10-01 10:00:00');

CREATE TABLE `regsvc_lease` (
  `name` varchar(40) NOT NULL COMMENT 'task that only one process may do',
  `holder` varchar(80) NOT NULL COMMENT 'installation and process',
  `expires_at` datetime(3) NOT NULL COMMENT 'by the database''s clock',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_link` (`id`, `user_id`, `purpose`, `email_key`, `nonce`, `created_at`, `expires_at`, `redeemed_at`, `issued_by`, `maker`) VALUES
(1, 2, 'reset', '', '5e8dafa8fb22efec3824eb6f9d6353c1', '2026-11-28 20:52:42.960000', '2026-11-28 21:52:42.960000', NULL, NULL, 'cli:root');

CREATE TABLE `regsvc_migration` (
  `number` int(11) NOT NULL COMMENT 'of the migration',
  `name` varchar(100) NOT NULL COMMENT 'of the migration',
  `applied_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`number`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_migration` (`number`, `name`, `applied_at`) VALUES
(100, 'baseline', '2026-11-28 20:52:45.186000'),
(101, 'rights', '2026-11-28 20:52:45.231000'),
(102, 'players_table', '2026-11-28 20:52:45.298000'),
(103, 'urgent_mails', '2026-11-28 20:52:45.302000'),
(104, 'lists', '2026-11-28 20:52:45.307000'),
(105, 'allowlist', '2026-11-28 20:52:45.315000'),
(106, 'team', '2026-11-28 20:52:45.322000'),
(107, 'applications', '2026-11-28 20:52:45.336000'),
(108, 'team_chat', '2026-11-28 20:52:45.361000');

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_note` (`id`, `user_id`, `username_key`, `email_key`, `author`, `text`, `created_at`) VALUES
(1, 1, 'sam_the_mason', 'sam_the_mason@example.org', 'cli:root', 'Plays with Bob; naïve “quotes”.', '2026-11-28 20:52:42.445000');

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
) ENGINE=InnoDB AUTO_INCREMENT=26 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_outbox` (`id`, `kind`, `template`, `recipient`, `recipient_key`, `language`, `user_id`, `row_id`, `link_id`, `attempts`, `created_at`, `next_attempt_at`, `done_at`, `outcome`, `last_error`, `payload`) VALUES
(1, 'mail', 'received', 'sam_the_mason@example.org', 'sam_the_mason@example.org', 'en', 1, NULL, NULL, 1, '2026-11-16 20:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(2, 'mail', 'approved', 'sam_the_mason@example.org', 'sam_the_mason@example.org', 'en', 1, 1, NULL, 1, '2026-11-16 23:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(3, 'mail', 'received', 'oda_1987@example.org', 'oda_1987@example.org', 'en', 2, NULL, NULL, 1, '2026-11-19 20:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(4, 'mail', 'approved', 'oda_1987@example.org', 'oda_1987@example.org', 'en', 2, 2, NULL, 1, '2026-11-20 02:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(5, 'mail', 'received', 'xx_blaze_xx@example.org', 'xx_blaze_xx@example.org', 'en', 3, NULL, NULL, 1, '2026-11-20 20:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(6, 'mail', 'approved', 'xx_blaze_xx@example.org', 'xx_blaze_xx@example.org', 'en', 3, 3, NULL, 1, '2026-11-21 01:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(7, 'mail', 'banned', 'xx_blaze_xx@example.org', 'xx_blaze_xx@example.org', 'en', 3, 4, NULL, 1, '2026-11-25 20:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL),
(8, 'mail', 'received', 'lena_holz@example.org', 'lena_holz@example.org', 'de', 4, NULL, NULL, 1, '2026-11-22 20:52:39.853000', NULL, '2026-11-28 20:52:39.853000', 'sent', NULL, NULL);

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_player_address` (`id`, `user_id`, `source`, `address`, `seen_at`) VALUES
(1, 2, 'ip', '203.0.113.40', '2026-10-01 10:00:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_question` (`id`, `user_id`, `username_key`, `email_key`, `author`, `question`, `answers`, `asked_at`, `answer`, `answered_at`) VALUES
(1, 6, 'theo_short', 'theo_short@example.org', 'cli:root', 'Who showed you the server?', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I''d rebuild the mill by the river with a working water wheel, and run a bakery in it with two friends.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"YouTube\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 20:52:42.548000', NULL, NULL);

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
) ENGINE=InnoDB AUTO_INCREMENT=13 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_questionnaire_result` (`id`, `nonce`, `user_id`, `score`, `max_score`, `pass_score`, `is_passed`, `requires_review`, `summary`, `answers`, `submitted_at`, `expires_at`, `answer_seconds`) VALUES
(1, 'd57e68a5817d394ba7cbc319b448fae4', 1, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I build bridges. I would like to help with the one across the river.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"A friend\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-16 20:52:39.853000', NULL, NULL),
(2, '3281a2ae2f8d5130edee5c13a9dd58d9', 2, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"A small farm at the edge of the valley, and a market with my neighbours on Sundays.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Reddit\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-19 20:52:39.853000', NULL, NULL),
(3, '31855ecf6722cdb7e83d43154fc56724', 3, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 1, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Just want to play with everybody, I know a lot about redstone.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[],\"points\":0,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-20 20:52:39.853000', NULL, NULL),
(4, '84b156edf778433554cdcbf44af9b3de', 4, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Ich baue am liebsten Fachwerkhäuser und würde gern mit anderen ein Dorf planen.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Meine Schwester spielt schon hier.\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-22 20:52:39.853000', NULL, NULL),
(6, '0ba405d59479cb040d728f0333fd5d26', 6, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I''d rebuild the mill by the river with a working water wheel, and run a bakery in it with two friends.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"YouTube\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-27 18:52:39.853000', NULL, NULL),
(7, 'cfdc846cc69a96aab29af696c6066f73', 7, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 1, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Redstone machines for everybody, and no trouble at all this time.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[],\"points\":0,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 00:52:39.853000', NULL, NULL),
(8, '9b0c10417fb7e57aeb622d55af6fd4b6', 8, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Playing with my two kids on weekends. We like to build treehouses together.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"The school''s newsletter\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 05:52:39.853000', NULL, NULL),
(10, '7a875bf94cfca260c8faa584c8db248e', 10, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I play on my phone and love decorating houses. I could furnish the inn!\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Discord\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 13:52:39.853000', NULL, NULL),
(11, '893c9a0ca7a52ab13ae114effa47796a', 11, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Créer un phare au bout du lac et une ligne de bateaux avec les autres joueurs.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Un ami de Discord\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 15:52:39.853000', NULL, NULL),
(12, '349f2ee4cc55e172e8b34cdd2f9727e8', 12, 60, 100, 60, 1, 1, '60 of 100 points; 60 needed.\nAnswers to review: 2, worth up to 40 more points.', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"A greenhouse village: glass, vines, bees. I can show sketches if you like.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"A friend\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]', '2026-11-28 18:52:39.853000', NULL, NULL);

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
) ENGINE=InnoDB AUTO_INCREMENT=57 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_rate_limit` (`id`, `scope`, `subject`, `period_seconds`, `started_at`, `ends_at`, `hits`) VALUES
(1, 'questionnaire.client', '198.18.20.20', 60, '2026-11-16 20:52:39.853000', '2026-11-16 20:53:39.853000', 1),
(2, 'questionnaire.client', '198.18.20.20', 86400, '2026-11-16 20:52:39.853000', '2026-11-17 20:52:39.853000', 1);

CREATE TABLE `regsvc_reader` (
  `reader` varchar(255) NOT NULL COMMENT 'member of the team, in lower case',
  `name` varchar(255) NOT NULL COMMENT 'as shown',
  `username_key` varchar(255) NOT NULL COMMENT 'the user who is open at theirs',
  `seen_at` datetime(3) NOT NULL COMMENT 'when their page last said so',
  PRIMARY KEY (`reader`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_reader` (`reader`, `name`, `username_key`, `seen_at`) VALUES
('reader-1', 'Olivia', 'mia_builds', '2026-11-27 10:00:00');

CREATE TABLE `regsvc_recovery_code` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT COMMENT 'in order',
  `user_id` bigint(20) NOT NULL COMMENT 'user',
  `code_hash` varchar(64) NOT NULL COMMENT 'keyed hash of a code that was not used yet; the code itself is not stored',
  `created_at` datetime(3) NOT NULL COMMENT 'when it was shown',
  PRIMARY KEY (`id`),
  UNIQUE KEY `user_id` (`user_id`,`code_hash`),
  CONSTRAINT `regsvc_recovery_code_ibfk_1` FOREIGN KEY (`user_id`) REFERENCES `regsvc_user` (`id`) ON DELETE CASCADE
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_recovery_code` (`id`, `user_id`, `code_hash`, `created_at`) VALUES
(1, 1, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '2026-05-01 10:00:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=13 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_review` (`id`, `user_id`, `username`, `username_key`, `transition`, `status_before`, `status_after`, `reason`, `ban_expires_at`, `operator`, `reviewed_at`, `email_key`, `answers`) VALUES
(1, 1, 'Sam_the_Mason', 'sam_the_mason', 'approve', 'pending', 'approved', 'Welcome! The bridge is yours.', NULL, 'Olivia', '2026-11-16 23:52:39.853000', 'sam_the_mason@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I build bridges. I would like to help with the one across the river.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"A friend\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(2, 2, 'Oda_1987', 'oda_1987', 'approve', 'pending', 'approved', NULL, NULL, 'Olivia', '2026-11-20 02:52:39.853000', 'oda_1987@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"A small farm at the edge of the valley, and a market with my neighbours on Sundays.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Reddit\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(3, 3, 'xX_Blaze_Xx', 'xx_blaze_xx', 'approve', 'pending', 'approved', NULL, NULL, 'Olivia', '2026-11-21 01:52:39.853000', 'xx_blaze_xx@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Just want to play with everybody, I know a lot about redstone.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[],\"points\":0,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(4, 3, 'xX_Blaze_Xx', 'xx_blaze_xx', 'ban', 'approved', 'banned', 'ban.griefing', NULL, 'Olivia', '2026-11-25 20:52:39.853000', 'xx_blaze_xx@example.org', NULL),
(5, 4, 'Lena_Holz', 'lena_holz', 'approve', 'pending', 'approved', NULL, NULL, 'Olivia', '2026-11-22 22:52:39.853000', 'lena_holz@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Ich baue am liebsten Fachwerkhäuser und würde gern mit anderen ein Dorf planen.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Meine Schwester spielt schon hier.\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(6, 5, 'Theo_short', 'theo_short', 'reject', 'pending', 'rejected', 'reject.short_answers', NULL, 'Olivia', '2026-11-25 00:52:39.853000', 'theo_short@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"play and build\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[],\"points\":0,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(7, 7, 'Blaze_is_back', 'blaze_is_back', 'approve', 'pending', 'approved', NULL, NULL, 'cli:root', '2026-11-28 20:52:43.045000', 'blaze_is_back@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Redstone machines for everybody, and no trouble at all this time.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[],\"points\":0,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(8, 8, 'Pixel_Papa', 'pixel_papa', 'approve', 'pending', 'approved', NULL, NULL, 'cli:root', '2026-11-28 20:52:43.169000', 'pixel_papa@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"Playing with my two kids on weekends. We like to build treehouses together.\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"The school''s newsletter\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(9, 9, 'xiaolin_mc', 'xiaolin_mc', 'approve', 'pending', 'approved', NULL, NULL, 'cli:root', '2026-11-28 20:52:43.327000', 'xiaolin_mc@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"我想和大家一起建一座中式园林，有小桥、流水和亭子。我很有耐心，也喜欢教新手。\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"B站视频\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(10, 7, 'Blaze_is_back', 'blaze_is_back', 'ban', 'approved', 'banned', 'Griefing', '2029-05-16 20:52:43.446000', 'cli:root', '2026-11-28 20:52:43.447000', 'blaze_is_back@example.org', NULL),
(11, 10, '.BeaOnThePhone', '.beaonthephone', 'reject', 'pending', 'rejected', 'Short answers', NULL, 'cli:root', '2026-11-28 20:52:43.720000', 'pixel.papa+old@example.org', '[{\"question_id\":1,\"type\":\"single_choice\",\"question\":\"Another player built a house where you wanted to build. What do you do?\",\"answers\":[\"I talk to the player, or look for another place.\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1]},{\"question_id\":2,\"type\":\"multiple_choice\",\"question\":\"Which of these are allowed here?\",\"answers\":[\"A texture pack that only changes how things look\",\"Building together with friends\"],\"points\":30,\"max_points\":30,\"note\":\"\",\"option_ids\":[1,2]},{\"question_id\":3,\"type\":\"text\",\"question\":\"What would you like to do on this server?\",\"answers\":[\"I play on my phone and love decorating houses. I could furnish the inn!\"],\"points\":null,\"max_points\":40,\"note\":\"\",\"option_ids\":[]},{\"question_id\":4,\"type\":\"text\",\"question\":\"Who told you about us?\",\"answers\":[\"Discord\"],\"points\":null,\"max_points\":0,\"note\":\"\",\"option_ids\":[]}]'),
(12, 9, 'xiaolin_mc', 'xiaolin_mc', 'delete', 'approved', NULL, NULL, NULL, 'cli:root', '2026-11-28 20:52:43.868000', 'xiaolin_mc@example.org', NULL);

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

INSERT INTO `regsvc_session` (`jti`, `user_id`, `audience`, `token_generation`, `ip`, `created_at`, `last_seen_at`, `expires_at`, `has_second_factor`) VALUES
('jti-1', 2, 'user', 0, '203.0.113.40', '2026-11-01 10:00:00', '2026-11-27 10:00:00', '2031-01-01 00:00:00', 0),
('jti-2', 1, 'admin', 0, '203.0.113.41', '2026-11-27 10:00:00', '2026-11-27 11:00:00', '2031-01-01 00:00:00', 1);

CREATE TABLE `regsvc_setting` (
  `name` varchar(40) NOT NULL COMMENT 'registration or announcement',
  `value` mediumtext NOT NULL COMMENT 'JSON',
  `changed_by` varchar(255) NOT NULL COMMENT 'who changed it',
  `changed_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_setting` (`name`, `value`, `changed_by`, `changed_at`) VALUES
('registration', '{\"open\": false, \"opensAt\": 1798491164009}', 'cli:root', '2026-11-28 20:52:44.009000');

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
  KEY `regsvc_sync_record_newest` (`plugin_state`,`user_id` DESC,`username_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_sync_record` (`username_key`, `user_id`, `presence`, `base_hash`, `base_salt`, `base_email`, `base_realname`, `base_regdate`, `intent`, `intent_hash`, `intent_salt`, `intent_regdate`, `lock_reason`, `locked_at`, `kept_hash`, `kept_origin`, `kept_premium_uuid`, `kept_group`, `kicked_login`, `tombstone_hash`, `tombstone_regdate`, `tombstone_at`, `conflict`, `plugin_state`, `plugin_since`, `earlier_hashes`, `changed_at`) VALUES
('.beaonthephone', 10, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2026-11-28 13:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('blaze_is_back', 7, 'present', '$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481', NULL, 'blaze_is_back@example.org', 'Blaze_is_back', 1795899163070, NULL, NULL, NULL, NULL, 'banned', '2026-11-28 20:52:43.593000', '$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481', 'verified', NULL, NULL, 0, NULL, NULL, NULL, NULL, 'locked', '2026-11-28 20:52:43.630000', NULL, '2026-11-28 20:52:45.381000'),
('lena_holz', 4, 'present', '$SHA$97eeabacd2d30374$cfec9601d4d793fdef96d4f1578f08c41853e61573f473ee12b6fd4cc2af0ff5', NULL, 'lena_holz@example.org', 'Lena_Holz', 1795387959853, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2026-11-22 22:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('mia_builds', 12, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2026-11-28 18:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('noe_du_phare', 11, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2026-11-28 15:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('oda_1987', 2, 'present', '$SHA$b7b6ec4e9e3e00a5$a40050703da5da91a4c2689daea8521baac8a47dccd34df88552813e7a7b1533', NULL, 'oda_1987@example.org', 'Oda_1987', 1795143159853, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2026-11-20 02:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('olivia', 13, 'present', '$SHA$c7f155b71fd406ea$50bf00e98933206d639f996ef43f53494c68d5eb30a194cda26981217fa217b9', NULL, NULL, 'Olivia', 1795899159812, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2026-11-28 20:52:44.196000', NULL, '2026-11-28 20:52:45.381000'),
('pixel_papa', 8, 'present', '$SHA$f21efc6df42e111c$06a988dee9e2ff0a76a87872de656a7c59dd7be07859625780133f76db2cf727', NULL, 'pixel_papa@example.org', 'Pixel_Papa', 1795899163201, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2026-11-28 20:52:43.262000', NULL, '2026-11-28 20:52:45.381000'),
('sam_the_mason', 1, 'present', '$SHA$73c8c37f99b5dd4b$5df29aa0d27dec42837a75abcc83111e5f587241957761682a79a3c10f6fd20b', NULL, 'sam_the_mason@example.org', 'Sam_the_Mason', 1794873159853, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'synced', '2026-11-16 23:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('theo_short', 6, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'absent', '2026-11-27 18:52:39.853000', NULL, '2026-11-28 20:52:45.381000'),
('xiaolin_mc', NULL, 'absent', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '$SHA$72549d2efc0e70a6$e43709620794450a0cf3ae0bf5c1bf58a602e0dce97eb83f27fc8ce835d2a15c', 1795899163360, '2026-11-28 20:52:43.865000', NULL, 'absent', '2026-11-28 20:52:43.865000', NULL, '2026-11-28 20:52:45.381000'),
('xx_blaze_xx', 3, 'present', '$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9', NULL, 'xx_blaze_xx@example.org', 'xX_Blaze_Xx', 1795225959853, NULL, NULL, NULL, NULL, 'banned', '2026-11-25 20:52:39.853000', '$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9', 'verified', NULL, NULL, 0, NULL, NULL, NULL, NULL, 'locked', '2026-11-25 20:52:39.853000', NULL, '2026-11-28 20:52:45.381000');

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

CREATE TABLE `regsvc_team_chat_event` (
  `id` varchar(80) NOT NULL COMMENT 'platform and id of what it sent us, so that it counts once',
  `received_at` datetime(3) NOT NULL COMMENT 'when',
  PRIMARY KEY (`id`),
  KEY `regsvc_team_chat_event_received_at` (`received_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_team_chat_event` (`id`, `received_at`) VALUES
('discord:1', '2026-11-27 10:00:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_team_chat_link` (`id`, `user_id`, `platform`, `account`, `name`, `code_hash`, `created_at`, `linked_at`) VALUES
(1, 1, 'discord', '80351110224678912', 'Sam', NULL, '2026-03-01 10:00:00', '2026-03-01 10:01:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_team_chat_message` (`id`, `chat`, `user_id`, `username_key`, `remote_id`, `shown`, `version`, `is_open`, `changed_at`) VALUES
(1, 'team', 12, 'mia_builds', '4711', 'pending', '1', 1, '2026-11-27 10:00:00');

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
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_token` (`id`, `name`, `active_name`, `public_part`, `hash`, `permissions`, `made_by`, `maker`, `created_at`, `expires_at`, `last_used_at`, `revoked_at`) VALUES
(1, 'dashboard', 'dashboard', 'Wb3JpD3cr7', 'd1847ea681a0281ba5453e0bd741d846d0d2b08d3fd24fa79ff5dc301854338c', 'users.read', NULL, 'cli:root', '2026-11-28 20:52:42.001000', NULL, NULL, NULL),
(2, 'bot', 'bot', 'fn87g7nhw7', 'bfb3b9fa99f792c83e2dfa78769ef66abd0cc5df25bee7852224154e7d04b2a6', 'users.read users.review', NULL, 'cli:root', '2026-11-28 20:52:42.221000', '2026-12-28 20:52:42.221000', NULL, NULL);

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
  KEY `regsvc_user_ban_expires` (`ban_expires_at`),
  KEY `regsvc_user_changed_at` (`changed_at`),
  KEY `regsvc_user_status_name` (`status`,`username_key`),
  KEY `regsvc_user_role` (`role`,`applied_role`),
  KEY `regsvc_user_registration_ip` (`registration_ip`,`status`),
  KEY `regsvc_user_look_key` (`look_key`),
  KEY `regsvc_user_waiting` (`status`,`is_asked`,`id`,`username_key`),
  KEY `regsvc_user_status_newest` (`status`,`id` DESC)
) ENGINE=InnoDB AUTO_INCREMENT=14 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_user` (`id`, `username`, `username_key`, `email`, `email_key`, `is_email_verified`, `status`, `applied_status`, `language`, `platform`, `password_hash`, `password_salt`, `password_algorithm`, `password_set_at`, `token_generation`, `origin`, `registration_ip`, `created_at`, `reason`, `reviewed_by`, `reviewed_at`, `banned_from`, `ban_expires_at`, `last_login_at`, `totp_step`, `changed_at`, `totp_nonce`, `totp_enabled_at`, `may_reapply`, `role`, `applied_role`, `invited_by`, `asked_at`, `answered_at`) VALUES
(1, 'Sam_the_Mason', 'sam_the_mason', 'sam_the_mason@example.org', 'sam_the_mason@example.org', 1, 'approved', 'approved', 'en', 'java', '$SHA$73c8c37f99b5dd4b$5df29aa0d27dec42837a75abcc83111e5f587241957761682a79a3c10f6fd20b', NULL, 'SHA256', '2026-11-16 20:52:39.853000', 0, 'registered', '198.18.20.20', '2025-11-13 20:52:39.853000', 'Welcome! The bridge is yours.', 'Olivia', '2026-11-16 23:52:39.853000', NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, 'moderator', 'moderator', NULL, NULL, NULL),
(2, 'Oda_1987', 'oda_1987', 'oda_1987@example.org', 'oda_1987@example.org', 1, 'approved', 'approved', 'en', 'java', '$SHA$b7b6ec4e9e3e00a5$a40050703da5da91a4c2689daea8521baac8a47dccd34df88552813e7a7b1533', NULL, 'SHA256', '2026-11-19 20:52:39.853000', 0, 'registered', '198.18.21.21', '2025-12-02 20:52:39.853000', NULL, 'Olivia', '2026-11-20 02:52:39.853000', NULL, NULL, '2026-10-01 10:00:00', NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, 'reviewer', 'reviewer', NULL, NULL, NULL),
(3, 'xX_Blaze_Xx', 'xx_blaze_xx', 'xx_blaze_xx@example.org', 'xx_blaze_xx@example.org', 1, 'banned', 'banned', 'en', 'java', '$SHA$f2ac93f6590a5841$8b067361edbf356f1b7695f3785b239e4220de7d82c44996085f7c6b598b4ad9', NULL, 'SHA256', '2026-11-20 20:52:39.853000', 1, 'registered', '203.0.113.40', '2025-12-19 20:52:39.853000', 'ban.griefing', 'Olivia', '2026-11-25 20:52:39.853000', 'approved', NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(4, 'Lena_Holz', 'lena_holz', 'Lena.Holz+game@example.org', 'lena.holz+game@example.org', 1, 'approved', 'approved', 'de', 'java', '$SHA$97eeabacd2d30374$cfec9601d4d793fdef96d4f1578f08c41853e61573f473ee12b6fd4cc2af0ff5', NULL, 'SHA256', '2026-11-22 20:52:39.853000', 0, 'registered', '198.18.23.23', '2026-01-06 20:52:39.853000', NULL, 'Olivia', '2026-11-22 22:52:39.853000', NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(6, 'Theo_short', 'theo_short', NULL, NULL, 0, 'pending', 'pending', 'en', 'java', '$SHA$85a3d1abe4cd5089$5e178878a7006ea0ba833d0e61ae5b32ddd3c4eb8cc30aac5d6128349f650a05', NULL, 'SHA256', '2026-11-27 18:52:39.853000', 0, 'registered', '198.18.25.25', '2026-02-12 18:52:39.853000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, '2026-11-28 20:52:42.548000', NULL),
(7, 'Blaze_is_back', 'blaze_is_back', 'blaze_is_back@example.org', 'blaze_is_back@example.org', 1, 'banned', 'banned', 'en', 'java', '$SHA$fee0a5b2fb13a8b1$cc7cc601cff4888332b2ed0b45a261bb34e9a52d91a49490462c1901c6847481', NULL, 'SHA256', '2026-11-28 00:52:39.853000', 1, 'registered', '203.0.113.40', '2026-03-01 00:52:39.853000', 'Griefing', 'cli:root', '2026-11-28 20:52:43.447000', 'approved', '2029-05-16 20:52:43.446000', NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(8, 'Pixel_Papa', 'pixel_papa', 'pixel_papa@example.org', 'pixel_papa@example.org', 1, 'approved', 'approved', 'en', 'java', '$SHA$f21efc6df42e111c$06a988dee9e2ff0a76a87872de656a7c59dd7be07859625780133f76db2cf727', NULL, 'SHA256', '2026-11-28 05:52:39.853000', 0, 'registered', '198.18.27.27', '2026-03-17 05:52:39.853000', NULL, 'cli:root', '2026-11-28 20:52:43.169000', NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(10, '.BeaOnThePhone', '.beaonthephone', 'beaonthephone@example.org', 'beaonthephone@example.org', 1, 'rejected', 'rejected', 'en', 'bedrock', '$SHA$607ae81678df50d0$d09121776556726b9553cc4ee933f5847c9431da5b4bd3c74ded12d42159d5c3', NULL, 'SHA256', '2026-11-28 13:52:39.853000', 0, 'registered', '198.18.29.29', '2026-04-18 13:52:39.853000', 'Short answers', 'cli:root', '2026-11-28 20:52:43.720000', NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(11, 'Noe_du_phare', 'noe_du_phare', 'noe_du_phare@example.org', 'noe_du_phare@example.org', 1, 'pending', 'pending', 'fr', 'java', '$SHA$08ec8fc865d1b9c6$a2c3bebc3dcc1f9cf4b7ca00c4fc31e29fe352df2e9e3333b292d2ce0a9d03be', NULL, 'SHA256', '2026-11-28 15:52:39.853000', 0, 'registered', '198.18.30.30', '2026-05-04 15:52:39.853000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(12, 'Mia_builds', 'mia_builds', '\"lena..holz+x\"@example.org', '\"lena..holz+x\"@example.org', 1, 'pending', 'pending', 'en', 'java', '$SHA$3098ffa4bffc818d$2591c9a752750580f1e37b764056d9fa509ff28c009f4aa23a76738230212c72', NULL, 'SHA256', '2026-11-28 18:52:39.853000', 0, 'registered', '198.18.31.31', '2026-05-20 18:52:39.853000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL),
(13, 'Olivia', 'olivia', NULL, NULL, 0, 'approved', 'approved', NULL, 'java', NULL, NULL, NULL, NULL, 0, 'adopted', NULL, '2026-06-05 20:52:39.812000', NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-28 20:52:45.375000', NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL);

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
) ENGINE=InnoDB AUTO_INCREMENT=13 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO `regsvc_verification` (`id`, `email_key`, `purpose`, `nonce`, `tries`, `created_at`, `handed_over_at`, `redeemed_at`, `client`, `other_tries`) VALUES
(1, 'sam_the_mason@example.org', 'register', 'c20fe692a31869a1a24d7634efb4c697', 0, '2026-11-16 20:52:39.853000', NULL, '2026-11-16 20:52:39.853000', '198.18.20.20', 0),
(2, 'oda_1987@example.org', 'register', '1f8c2fc02497f0e99e649445f53a140e', 0, '2026-11-19 20:52:39.853000', NULL, '2026-11-19 20:52:39.853000', '198.18.21.21', 0);

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_outbox` AS select `o`.`id` AS `id`,coalesce(`o`.`outcome`,'waiting') AS `state`,`o`.`kind` AS `kind`,`o`.`template` AS `template`,`o`.`recipient` AS `recipient`,`u`.`username` AS `username`,`o`.`language` AS `language`,`o`.`attempts` AS `attempts`,`o`.`created_at` AS `created_at`,`o`.`next_attempt_at` AS `next_attempt_at`,`o`.`done_at` AS `done_at`,`o`.`last_error` AS `last_error` from (`regsvc_outbox` `o` left join `regsvc_user` `u` on(`u`.`id` = `o`.`user_id`));

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_questions` AS select `q`.`id` AS `id`,`q`.`user_id` AS `user_id`,`q`.`username_key` AS `username_key`,`q`.`author` AS `author`,`q`.`question` AS `question`,`q`.`asked_at` AS `asked_at`,`q`.`answer` AS `answer`,`q`.`answered_at` AS `answered_at`,case when `u`.`status` = 'pending' and `u`.`asked_at` is not null and `q`.`answered_at` is null then 1 else 0 end AS `is_open` from (`regsvc_question` `q` left join `regsvc_user` `u` on(`u`.`id` = `q`.`user_id`));

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_recent_audit` AS select `a`.`id` AS `id`,`a`.`created_at` AS `created_at`,`a`.`operator` AS `operator`,`a`.`action` AS `action`,`a`.`target` AS `target`,`a`.`detail` AS `detail`,`a`.`ip` AS `ip`,`a`.`occurrences` AS `occurrences` from `regsvc_audit` `a` order by `a`.`id` desc limit 1000;

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_review_queue` AS select `u`.`id` AS `id`,`u`.`username` AS `username`,`u`.`username_key` AS `username_key`,`u`.`email` AS `email`,`u`.`is_email_verified` AS `is_email_verified`,`u`.`platform` AS `platform`,`u`.`language` AS `language`,`u`.`origin` AS `origin`,`u`.`registration_ip` AS `registration_ip`,`u`.`created_at` AS `registered_at`,case when `u`.`asked_at` is null then 'review' else 'applicant' end AS `waiting_for`,`u`.`answered_at` AS `answered_at`,coalesce(`p`.`plugin_state`,'pending') AS `plugin_state`,`p`.`plugin_since` AS `plugin_since`,(select count(0) from `regsvc_review` `r` where `r`.`username_key` = `u`.`username_key` and `r`.`transition` = 'reject') AS `times_rejected`,(select max(`r`.`reviewed_at`) from `regsvc_review` `r` where `r`.`username_key` = `u`.`username_key` and `r`.`transition` = 'reject') AS `last_rejected_at` from (`regsvc_user` `u` left join `regsvc_sync_record` `p` on(`p`.`username_key` = `u`.`username_key`)) where `u`.`status` = 'pending';

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_sync_drift` AS select `p`.`username_key` AS `username_key`,`u`.`username` AS `username`,`u`.`status` AS `status`,case when `p`.`plugin_state` in ('synced','off','absent') and `p`.`locked_at` is not null then 'locked' else `p`.`plugin_state` end AS `difference`,`p`.`plugin_since` AS `found_at`,case when `p`.`plugin_state` = 'conflict' and `p`.`conflict` = 'name' then 'the game takes this name for another one that it has already' when `p`.`plugin_state` = 'conflict' and `p`.`conflict` is not null then 'the sides differ in what stands under conflict, and neither gives way' when `p`.`plugin_state` = 'conflict' then 'the game has a row of this name that is not this user\'s' when `p`.`plugin_state` = 'returned' then 'somebody unproven registered this name in the game: an approval or the mailed link opens it' when `p`.`plugin_state` = 'pending' then 'the player is about to be written' when `p`.`lock_reason` = 'banned' then 'locked until the ban ends' when `p`.`lock_reason` = 'pending' then 'locked until the review' when `p`.`lock_reason` = 'rejected' then 'locked because the user was rejected' when `p`.`locked_at` is not null or `p`.`plugin_state` = 'locked' then 'locked' when `p`.`presence` = 'gone' then 'the player was there and is gone: unregistered in the game, or purged' else 'nobody has set a password yet: the mailed link makes the player' end AS `why`,`p`.`conflict` AS `conflict`,`p`.`intent` AS `intent`,`p`.`lock_reason` AS `lock_reason`,`p`.`locked_at` AS `locked_at` from (`regsvc_sync_record` `p` join `regsvc_user` `u` on(`u`.`id` = `p`.`user_id`)) where `p`.`plugin_state` in ('conflict','returned','pending','locked') or `p`.`locked_at` is not null or `p`.`plugin_state` = 'absent' and `u`.`status` = 'approved' union all select `u`.`username_key` AS `username_key`,`u`.`username` AS `username`,`u`.`status` AS `status`,'edited' AS `edited`,NULL AS `NULL`,'a status was typed in SQL and is not carried out yet: the next run does, or a brake holds it' AS `Name_exp_6`,NULL AS `NULL`,NULL AS `NULL`,NULL AS `NULL`,NULL AS `NULL` from `regsvc_user` `u` where `u`.`is_edited` = 1 union all select `p`.`username_key` AS `username_key`,`p`.`username_key` AS `username_key`,NULL AS `NULL`,'deleted' AS `deleted`,NULL AS `NULL`,'the user was deleted in SQL and the player is still there: the next run removes it, or a brake holds it' AS `Name_exp_6`,NULL AS `NULL`,`p`.`intent` AS `intent`,`p`.`lock_reason` AS `lock_reason`,`p`.`locked_at` AS `locked_at` from (`regsvc_sync_record` `p` left join `regsvc_user` `u` on(`u`.`id` = `p`.`user_id`)) where `p`.`user_id` is not null and `u`.`id` is null and `p`.`tombstone_at` is null;

CREATE ALGORITHM=UNDEFINED SQL SECURITY INVOKER VIEW `regsvc_v_users` AS select `u`.`id` AS `id`,`u`.`username` AS `username`,`u`.`username_key` AS `username_key`,`u`.`email` AS `email`,`u`.`is_email_verified` AS `is_email_verified`,`u`.`status` AS `status`,`u`.`applied_status` AS `applied_status`,`u`.`reason` AS `reason`,`u`.`reviewed_by` AS `reviewed_by`,`u`.`reviewed_at` AS `reviewed_at`,`u`.`banned_from` AS `banned_from`,`u`.`ban_expires_at` AS `ban_expires_at`,`u`.`platform` AS `platform`,`u`.`language` AS `language`,`u`.`origin` AS `origin`,`u`.`registration_ip` AS `registration_ip`,`u`.`created_at` AS `registered_at`,`u`.`last_login_at` AS `last_login_at`,`u`.`password_hash` is not null AS `has_password`,coalesce(`p`.`plugin_state`,'pending') AS `plugin_state`,`p`.`plugin_since` AS `plugin_since` from (`regsvc_user` `u` left join `regsvc_sync_record` `p` on(`p`.`username_key` = `u`.`username_key`));

CREATE TRIGGER regsvc_audit_is_not_changed BEFORE UPDATE ON regsvc_audit FOR EACH ROW
        IF NEW.id <> OLD.id OR NEW.action <> OLD.action OR NEW.operator <> OLD.operator
          OR NOT (NEW.target <=> OLD.target) OR NOT (NEW.detail <=> OLD.detail) OR NOT (NEW.tally <=> OLD.tally)
          OR NEW.created_at <> OLD.created_at OR NEW.occurrences < OLD.occurrences
          OR (NEW.occurrences > OLD.occurrences AND OLD.tally IS NULL)
          OR (NOT (NEW.ip <=> OLD.ip) AND (NEW.ip IS NOT NULL OR NOT EXISTS
               (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at))) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF;

CREATE TRIGGER regsvc_audit_is_not_deleted BEFORE DELETE ON regsvc_audit FOR EACH ROW
        IF NOT EXISTS (SELECT 1 FROM regsvc_installation WHERE purging_audit_before > OLD.created_at) THEN
          SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit log is append-only';
        END IF;

INSERT INTO `regsvc_bucket` VALUES (7, 3, 123456789);

SET foreign_key_checks = 1
