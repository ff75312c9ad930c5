"""The config that a command line names, and the rights of a command.

One that root starts works as the user that owns the installation, or its config.
"""

import argparse
import getpass
import os
import pwd
import sys
from pathlib import Path
from typing import Final

from plugin_bridge.text import one_line
from regsvc.config.loader import load_config
from regsvc.config.places import (
    LOCAL_CONFIG,
    SystemPlaces,
    default_state_dir,
    find_config_file,
    find_shadowed_config,
    is_installation,
    may_exist,
)
from regsvc.config.sections import Config, ConfigError
from regsvc.core.safe_paths import find_foreign_folder, status_of

_ROOT: Final = 0
_NEEDS_NO_STATE: Final = ("status", "translations")
"""Commands that tell users what they can, who may not read the state directory."""
_USER_VARIABLE: Final = "LOGNAME"
_LONGEST_LOGIN: Final = 64


class ForeignInstallation(ConfigError):
    """The installation is another user's, and we may not read it: nothing can be said about it."""


def read_as_owner(config_file: Path | None) -> None:
    """Drop root's rights for those of the user that owns the config, unless it is one of the system's, in /etc.

    Its owner says which files we read and write; with root's rights these could be anybody's. Raises `ConfigError` if
    another user could exchange a config that is root's.
    """
    if os.geteuid() != _ROOT or config_file is None or SystemPlaces.of_config(config_file) is not None:
        return
    owner = _owner_of(config_file)
    if owner is not None and owner.st_uid != _ROOT:
        _work_as(owner, config_file)
    require_roots_alone(config_file)


def work_as_owner(config: Config, *, creates_state: bool) -> None:
    """Drop root's rights for those of the user that owns the state directory, so that every file we write is theirs.

    Does nothing for another user than root, and where root owns the state directory. With `creates_state` a missing
    one is created for the owner of AuthMe's folder, who the companion runs as; where it would be below another user's
    folder, every command works as that owner. Of a link that others than root could have planted, the owner counts.
    Raises `ConfigError` if the owner cannot read our own files, or if we keep root's rights and another user could
    exchange the directory. What only root may read must have been read before.
    """
    if os.geteuid() != _ROOT:
        return
    state_dir = config.server.state_dir
    owner = _owner_of(state_dir)
    if owner is None and (creates_state or find_foreign_folder(state_dir) is not None):
        authme = config.authme_config_path
        is_there = authme is not None and authme.parent.is_dir()
        owner = _owner_of(authme.parent if authme is not None and is_there else config.game.directory)
        if owner is not None and owner.st_uid != _ROOT:
            _create_for(owner, state_dir)
    if owner is not None and owner.st_uid != _ROOT:
        _work_as(owner, state_dir)
    require_roots_alone(state_dir)


def require_roots_alone(path: Path) -> None:
    """Raise `ConfigError` if we have root's rights, and others can change where the path leads."""
    folder = find_foreign_folder(path.absolute()) if os.geteuid() == _ROOT else None
    if folder is not None:
        raise ConfigError(
            f"root does not use {path}, because others may write {folder} and could put a link there; use a path "
            "below folders that only root may write, or run this as the user who owns it"
        )


def require_installation(state_dir: Path) -> None:
    """Raise `ConfigError` unless an installation has started with this state directory."""
    if not is_installation(state_dir):
        raise ConfigError(f"there is no installation in {state_dir}; server.state_dir says where")


def _require_access(state_dir: Path, command: str) -> None:
    """Raise `ForeignInstallation` if the state directory is another user's, and we may not read it."""
    if may_exist(state_dir) and not os.access(state_dir, os.R_OK | os.X_OK):
        _require_owner(state_dir, _owner_of(state_dir), command)


def _require_owner(unreadable: object, owner: os.stat_result | None, command: str) -> None:
    """Raise `ForeignInstallation` unless we are the owner of the installation, who has to mend what they cannot read.

    `owner` is the owner's status, None if it cannot be seen.
    """
    if owner is not None and owner.st_uid == os.geteuid():
        return
    ways = [] if owner is None or owner.st_uid == _ROOT else [f"as {user_name(owner.st_uid)}, who owns it"]
    if command != "serve" or not ways:  # the daemon should not be root's
        ways.append("as root (with sudo)")
    raise ForeignInstallation(
        f"{unreadable} cannot be read by {user_name(os.geteuid())}: run this command {', or '.join(ways)}"
    )


def actor_name() -> str:
    """Return the name of the user who started the command, for the audit log: `cli:NAME`."""
    try:
        return f"cli:{one_line(getpass.getuser(), _LONGEST_LOGIN)}"
    except (KeyError, OSError):  # a user without a name, as in a container
        return f"cli:{os.getuid()}"


def user_name(user_id: int) -> str:
    """Return the name of a user; the id itself for one without a name."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return str(user_id)


def _create_for(owner: os.stat_result, state_dir: Path) -> None:
    """Create the directory where only root may. Below another user's folder, that user's rights have to be enough.

    There a link might take the place of what we create, before it gets its owner.
    """
    if find_foreign_folder(state_dir) is not None:
        return
    for folder in (*reversed(state_dir.parents), state_dir):
        if not folder.exists():
            folder.mkdir(mode=0o700)
            folder.chmod(0o700 if folder == state_dir else 0o755)
    os.chown(state_dir, owner.st_uid, owner.st_gid)


def _work_as(owner: os.stat_result, owned: Path) -> None:
    """Drop root's rights for those of this owner, and say so. Raises `ConfigError`."""
    _become(owner.st_uid, owner.st_gid)
    name = user_name(owner.st_uid)
    print(f"companion: working as {name}, who owns {owned}", file=sys.stderr)
    _require_readable_program(name)


def _become(user_id: int, group_id: int) -> None:
    os.environ.setdefault(_USER_VARIABLE, user_name(os.getuid()))  # the audit log names who started the command
    try:
        account = pwd.getpwuid(user_id)
        os.initgroups(account.pw_name, account.pw_gid)
        group_id = account.pw_gid
    except KeyError:
        os.setgroups([group_id])
    os.setresgid(group_id, group_id, group_id)
    os.setresuid(user_id, user_id, user_id)


def _owner_of(folder: Path | None) -> os.stat_result | None:
    try:
        return None if folder is None else status_of(folder)
    except OSError:
        return None


def _require_readable_program(name: str) -> None:
    for file in (Path(__file__), Path(os.__file__)):
        if not os.access(file, os.R_OK):
            raise ConfigError(
                f"the companion is installed where {name} cannot read it ({file}): install it below /opt, for example"
            )


def creates_state(args: argparse.Namespace) -> bool:
    """Return whether the command may create a state directory, keys and a database. All others refuse without them."""
    return args.command in ("serve", "migrate", "restore") or (args.command == "import" and not args.dry_run)


def read_config(args: argparse.Namespace) -> Config:
    """Read the config. Raises `ConfigError`."""
    overrides = {"game.directory": args.game_dir} if args.game_dir else {}
    file = find_given_config(args)
    is_named = args.config is not None or args.instance is not None
    shadowed = None if is_named else find_shadowed_config(file, os.environ)
    try:
        config = load_config(file, os.environ, overrides, shadowed=shadowed)
    except ConfigError:  # perhaps what it names is not for us to read
        _require_access(default_state_dir(file, os.environ), args.command)
        raise
    if args.command not in _NEEDS_NO_STATE:
        _require_access(config.server.state_dir, args.command)
    if creates_state(args) and not args.game_dir:
        _require_meant(config)
    return config


def _require_meant(config: Config) -> None:
    """Raise `ConfigError` where nothing says which installation is meant, and one would be made where a shell is."""
    is_meant = config.file is not None or config.variables or "STATE_DIRECTORY" in os.environ
    if not is_meant and not is_installation(config.server.state_dir) and not LOCAL_CONFIG.is_file():
        raise ConfigError(
            f"there is no config, so an installation would be made in {config.server.state_dir}. To set up a server: "
            f"companion install. Otherwise name a config (--config FILE), or put one in {LOCAL_CONFIG.absolute()}. "
            "Nothing was written"
        )


def read_config_as_owner(args: argparse.Namespace) -> Config:
    """Read the config, and work as the owner of the installation from then on. Raises `ConfigError`."""
    read_as_owner(find_given_config(args))
    config = read_config(args)
    work_as_owner(config, creates_state=creates_state(args))
    return config


def find_given_config(args: argparse.Namespace) -> Path | None:
    """Return the config file that a command line names, None if there is none. Raises `ConfigError`."""
    file = find_config_file(args.config, args.instance, os.environ)
    if file is not None:
        require_readable(file, args.command)
    return file


def require_readable(config_file: Path, command: str) -> None:
    """Raise `ForeignInstallation` if there is a config of another user's, which we may not read."""
    if may_exist(config_file) and not os.access(config_file, os.R_OK):
        places = SystemPlaces.of_config(config_file)
        owner = _owner_of(places.state_dir if places is not None else None) or _owner_of(config_file)
        _require_owner(f"{config_file}: it", owner, command)
